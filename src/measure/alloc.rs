//! A global allocator that counts, cheap enough to leave on.
//!
//! The binaries of this package install it with
//! `#[global_allocator] static ALLOCATOR: CountingAllocator = CountingAllocator;`. What it costs is a figure of
//! `rcb calibrate`.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ops::Sub;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};

/// The system's allocator with three counters per thread.
pub struct CountingAllocator;

/// Allocations made so far, by the whole process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Allocations {
    /// Calls of `alloc`, `alloc_zeroed` and `realloc`.
    pub count: u64,
    /// Bytes that these calls asked for; a `realloc` counts its whole new size.
    pub bytes: u64,
}

impl Sub for Allocations {
    type Output = Self;
    fn sub(self, before: Self) -> Self {
        Self { count: self.count - before.count, bytes: self.bytes - before.bytes }
    }
}

/// Threads beyond this many share one set of counters.
const SHARDS: usize = 256;

/// Counters on cache lines of their own, so that threads do not slow each other.
#[repr(align(128))]
struct Shard {
    count: AtomicU64,
    bytes: AtomicU64,
    freed: AtomicU64,
}

static COUNTERS: [Shard; SHARDS + 1] =
    [const { Shard { count: AtomicU64::new(0), bytes: AtomicU64::new(0), freed: AtomicU64::new(0) } }; SHARDS + 1];
static NEXT_SHARD: AtomicUsize = AtomicUsize::new(0);
static INSTALLED: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// This thread's shard, `usize::MAX` before its first allocation. Const and without a destructor, so that using it
    /// never allocates.
    static SHARD: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// This thread's counters, and whether they are its alone.
fn counters() -> (&'static Shard, bool) {
    let shard = SHARD.try_with(|shard| {
        if shard.get() == usize::MAX {
            shard.set(NEXT_SHARD.fetch_add(1, Relaxed).min(SHARDS));
            INSTALLED.store(true, Relaxed);
        }
        shard.get()
    });
    // A thread that is being torn down counts in the common shard.
    let shard = shard.unwrap_or(SHARDS);
    (&COUNTERS[shard], shard < SHARDS)
}

fn add(counter: &AtomicU64, number: u64, alone: bool) {
    if alone {
        // Only this thread writes here, so no locked instruction is needed.
        counter.store(counter.load(Relaxed).wrapping_add(number), Relaxed);
    } else {
        counter.fetch_add(number, Relaxed);
    }
}

fn count(bytes: usize) {
    let (shard, alone) = counters();
    add(&shard.count, 1, alone);
    add(&shard.bytes, bytes as u64, alone);
}

fn freed(bytes: usize) {
    let (shard, alone) = counters();
    add(&shard.freed, bytes as u64, alone);
}

// SAFETY: every method passes its arguments unchanged to the system's allocator, whose contract is the same; counting
// touches only atomics and a thread-local that needs neither initialisation nor a destructor, so it can't allocate or unwind.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller keeps the contract of `alloc_zeroed`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count(new_size);
        // SAFETY: the caller keeps the contract of `realloc`.
        let moved = unsafe { System.realloc(pointer, layout, new_size) };
        // One that fails leaves the old block as it was.
        freed(if moved.is_null() { new_size } else { layout.size() });
        moved
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        freed(layout.size());
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// What was allocated so far; `None` when the counting allocator is not this program's allocator.
#[must_use]
pub fn allocations() -> Option<Allocations> {
    INSTALLED.load(Relaxed).then(|| {
        COUNTERS.iter().fold(Allocations::default(), |sum, shard| Allocations {
            count: sum.count + shard.count.load(Relaxed),
            bytes: sum.bytes + shard.bytes.load(Relaxed),
        })
    })
}

/// Bytes that are allocated and not freed, by the whole process, as they were asked for; `None` when the counting allocator is not
/// this program's allocator. A block that moves between threads while this is read may be missed or counted twice.
#[must_use]
pub fn live_bytes() -> Option<u64> {
    INSTALLED.load(Relaxed).then(|| {
        let sum =
            |counter: fn(&Shard) -> &AtomicU64| COUNTERS.iter().fold(0_u64, |sum, shard| sum.wrapping_add(counter(shard).load(Relaxed)));
        let freed = sum(|shard| &shard.freed);
        sum(|shard| &shard.bytes).saturating_sub(freed)
    })
}

/// Nanoseconds of allocating and freeing 64 bytes, `(counting, system)`, each the fastest of `rounds` alternating rounds.
#[must_use]
#[allow(unsafe_code)]
pub fn cost(rounds: usize) -> (f64, f64) {
    const PAIRS: u32 = 100_000;
    let layout = Layout::new::<[u64; 8]>();
    let time = |allocator: &dyn GlobalAlloc| {
        let start = std::time::Instant::now();
        for _ in 0..PAIRS {
            // SAFETY: the layout is not empty, and what was allocated is freed once, by the same allocator and layout.
            unsafe {
                let pointer = std::hint::black_box(allocator.alloc(layout));
                if !pointer.is_null() {
                    allocator.dealloc(pointer, layout);
                }
            }
        }
        start.elapsed().as_nanos() as f64 / f64::from(PAIRS)
    };
    let mut best = (f64::INFINITY, f64::INFINITY);
    for _ in 0..rounds.max(1) {
        best = (best.0.min(time(&CountingAllocator)), best.1.min(time(&System)));
    }
    best
}
