//! Which machine a record was made on: figures of two machines are not comparable.

use serde::{Deserialize, Serialize};

use super::Environment;

const GIB: f64 = (1_u64 << 30) as f64;

/// A machine, told apart from others by what sways figures: system, kernel, processor, cores, memory, virtualisation, governor.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Machine {
    /// Eight hexadecimal digits, the same for equal machines.
    pub id: String,
    /// One line for people.
    pub text: String,
}

impl Machine {
    /// Of an environment. What changes from run to run, such as the load, has no part in it.
    #[must_use]
    pub fn of(environment: &Environment) -> Self {
        let unknown = || "unknown".to_owned();
        let known = |value: &Option<String>| value.clone().unwrap_or_else(unknown);
        // A kernel keeps a little more or less of the memory for itself from one start to the next.
        let memory = environment.memory.map_or_else(unknown, |bytes| format!("{:.0} GiB", bytes as f64 / GIB));
        let architecture = environment.target.split('-').next().unwrap_or_default();
        let text = format!(
            "{}, {} cores, {memory}, {architecture} {} {}, virtualisation {}, governor {}",
            known(&environment.cpu),
            environment.cores,
            environment.os,
            known(&environment.kernel),
            known(&environment.virtualisation),
            known(&environment.governor),
        );
        Self { id: format!("{:08x}", fnv1a(text.as_bytes())), text }
    }
}

/// FNV-1a, 32 bits: stable from build to build, which the standard library's hasher is not.
fn fnv1a(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_fnv1a() {
        assert_eq!((fnv1a(b""), fnv1a(b"a"), fnv1a(b"foobar")), (0x811c_9dc5, 0xe40c_292c, 0xbf9c_f968));
    }

    #[test]
    fn load_and_compiler_do_not_make_another_machine_but_cores_and_kernel_do() {
        let here = Environment::read();
        let machine = Machine::of(&here);
        let busy = Environment { load: None, busy: Some(0.9), rustc: "other".into(), debug_build: !here.debug_build, ..here.clone() };
        assert_eq!(Machine::of(&busy), machine);
        assert_ne!(Machine::of(&Environment { cores: here.cores + 1, ..here.clone() }).id, machine.id);
        assert_ne!(Machine::of(&Environment { kernel: Some("0".into()), ..here }).id, machine.id);
    }
}
