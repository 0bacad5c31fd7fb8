//! The account of one stream: what one subscription got of one publisher on one channel.
//!
//! Messages are numbered from 0. In the usual case, the next number, the account is a comparison and an addition. What is missing
//! is kept as a list of gaps, which is empty as long as nothing is lost, and bounded: with too many of them the oldest is settled as
//! it stands, and what should still arrive of it is counted as stale instead of being guessed at.

use std::collections::VecDeque;
use std::ops::Range;

/// Most gaps that are kept open for one stream.
pub const MOST_GAPS: usize = 4_096;

/// Numbers that did not arrive so far.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Gap {
    start: u64,
    end: u64,
    /// Whether they had to arrive; else they may have been published while the subscription was being opened or closed.
    due: bool,
}

/// The account of one stream.
#[derive(Clone, Debug, Default)]
pub struct Stream {
    /// All numbers below this one have arrived, are in a gap, or are settled.
    next: u64,
    /// One above the highest number that arrived.
    highest: u64,
    /// Nothing below this is told apart any more.
    settled: u64,
    received: u64,
    duplicated: u64,
    reordered: u64,
    stale: u64,
    /// Between the confirmed end of the subscription and its confirmed beginning.
    closed: bool,
    lost_settled: u64,
    unjudged_settled: u64,
    /// Ascending, not touching unless `due` differs.
    gaps: VecDeque<Gap>,
}

/// The counts of one or many streams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Tally {
    /// Different messages that arrived.
    pub received: u64,
    /// Messages that had to arrive and did not.
    pub lost: u64,
    /// Arrivals of a message that had arrived before.
    pub duplicated: u64,
    /// Messages that arrived after a later one of the same publisher and channel.
    pub reordered: u64,
    /// Messages that did not arrive and were published while their subscription was being opened or closed, or without an answer to
    /// their publisher: nobody can tell whether they were to arrive.
    pub unjudged: u64,
    /// Arrivals of messages whose gap was settled already; 0 unless a stream had more than [`MOST_GAPS`] gaps at once.
    pub stale: u64,
}

impl Tally {
    /// What had to arrive: what did, and what did not.
    #[must_use]
    pub fn expected(&self) -> u64 {
        self.received + self.lost
    }
}

impl std::ops::AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.received += other.received;
        self.lost += other.lost;
        self.duplicated += other.duplicated;
        self.reordered += other.reordered;
        self.unjudged += other.unjudged;
        self.stale += other.stale;
    }
}

/// What an arrival was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// The first of its message.
    New,
    /// Another one of a message that had arrived.
    Duplicate,
    /// Of a message that was settled before; nobody can tell which of both it is.
    Stale,
}

impl Stream {
    /// A stream that begins with number `first`, which must not have been published before the subscription was confirmed.
    #[must_use]
    pub fn from(first: u64) -> Self {
        Self { next: first, highest: first, settled: first, ..Self::default() }
    }

    /// The message with this number arrived.
    #[inline]
    pub fn arrive(&mut self, number: u64) -> Arrival {
        if number == self.next {
            self.next = number + 1;
            self.highest = self.next;
            self.received += 1;
            Arrival::New
        } else {
            self.out_of_line(number)
        }
    }

    #[cold]
    fn out_of_line(&mut self, number: u64) -> Arrival {
        if number > self.next {
            self.skip_to(number, !self.closed);
            self.next = number + 1;
            self.highest = self.next;
            self.received += 1;
            return Arrival::New;
        }
        if number < self.settled {
            self.stale += 1;
            return Arrival::Stale;
        }
        let place = self.gaps.partition_point(|gap| gap.end <= number);
        match self.gaps.get(place) {
            Some(gap) if gap.start <= number => {
                self.cut(number..number + 1);
                self.received += 1;
                if number < self.highest {
                    self.reordered += 1;
                }
                self.highest = self.highest.max(number + 1);
                Arrival::New
            }
            _ => {
                self.duplicated += 1;
                Arrival::Duplicate
            }
        }
    }

    /// The subscription was closed: all below `certain` were to arrive, and none from `limit` on. One that was closed already had to
    /// get nothing since then.
    pub fn close(&mut self, certain: u64, limit: u64) {
        self.skip_to(certain.min(limit), !self.closed);
        self.skip_to(limit, false);
        self.closed = true;
    }

    /// The subscription was opened again: from `certain` on all are to arrive. Some may have arrived before this is told.
    pub fn reopen(&mut self, certain: u64) {
        // An end that nobody confirmed left everything open, also what was not published yet.
        self.cap(certain);
        self.skip_to(certain, false);
        self.closed = false;
        self.mark(certain..self.next, true);
    }

    /// The publisher has sent `sent` messages and will send no more, and the subscription was open to the end.
    pub fn end(&mut self, sent: u64) {
        self.skip_to(sent, true);
    }

    /// No more than `sent` were published, whatever was left open at the end.
    pub fn cap(&mut self, sent: u64) {
        self.next = self.next.min(sent.max(self.highest));
        while let Some(last) = self.gaps.back_mut().filter(|last| last.end > self.next) {
            last.end = self.next;
            if last.start < last.end {
                break;
            }
            self.gaps.pop_back();
        }
    }

    /// Nobody can tell whether these were published.
    pub fn excuse(&mut self, numbers: Range<u64>) {
        self.skip_to(numbers.end, true);
        self.mark(numbers, false);
    }

    /// Whether the missing ones of `numbers` had to arrive.
    fn mark(&mut self, numbers: Range<u64>, due: bool) {
        for gap in self.cut(numbers) {
            let place = self.gaps.partition_point(|other| other.end <= gap.start);
            self.gaps.insert(place, Gap { due, ..gap });
        }
    }

    /// Numbers below `end` that have neither arrived nor are in a gap become one.
    fn skip_to(&mut self, end: u64, due: bool) {
        if end <= self.next {
            return;
        }
        match self.gaps.back_mut() {
            Some(last) if last.end == self.next && last.due == due => last.end = end,
            _ => self.gaps.push_back(Gap { start: self.next, end, due }),
        }
        self.next = end;
        if self.gaps.len() > MOST_GAPS
            && let Some(oldest) = self.gaps.pop_front()
        {
            self.settled = oldest.end;
            *if oldest.due { &mut self.lost_settled } else { &mut self.unjudged_settled } += oldest.end - oldest.start;
        }
    }

    /// Takes `numbers` out of the gaps; returns the parts that were in one.
    fn cut(&mut self, numbers: Range<u64>) -> Vec<Gap> {
        let mut taken = Vec::new();
        let mut place = self.gaps.partition_point(|gap| gap.end <= numbers.start);
        while let Some(gap) = self.gaps.get(place).filter(|gap| gap.start < numbers.end).cloned() {
            let (start, end) = (gap.start.max(numbers.start), gap.end.min(numbers.end));
            self.gaps.remove(place);
            if gap.start < start {
                self.gaps.insert(place, Gap { end: start, ..gap.clone() });
                place += 1;
            }
            if end < gap.end {
                self.gaps.insert(place, Gap { start: end, ..gap.clone() });
                place += 1;
            }
            taken.push(Gap { start, end, due: gap.due });
        }
        taken
    }

    /// How many different messages arrived.
    #[must_use]
    pub fn received(&self) -> u64 {
        self.received
    }

    /// The counts so far; what comes after the last arrival is not known before [`Stream::end`].
    #[must_use]
    pub fn tally(&self) -> Tally {
        let open = |due: bool| self.gaps.iter().filter(|gap| gap.due == due).map(|gap| gap.end - gap.start).sum::<u64>();
        Tally {
            received: self.received,
            lost: self.lost_settled + open(true),
            duplicated: self.duplicated,
            reordered: self.reordered,
            unjudged: self.unjudged_settled + open(false),
            stale: self.stale,
        }
    }
}

#[cfg(test)]
#[path = "stream_tests.rs"]
mod tests;
