//! Which mixes a cached load takes, and what their keys hold before it.

use std::collections::BTreeSet;

use crate::workload::cache::versions::{VERSION_BYTES, digits};
use crate::workload::cache::{check_mix, keys, prefill};
use crate::workload::mix::{CommandSpec, DataSize, Mix, MixOptions, Slot};

fn mix(commands: &[&str], options: MixOptions) -> Mix {
    Mix::new(commands.iter().map(|text| CommandSpec::parse(text).unwrap()).collect(), options).unwrap().0
}

fn options() -> MixOptions {
    MixOptions { keys: 10, prefilled: true, ..MixOptions::default() }
}

#[test]
fn gets_and_sets_of_keys_of_ours_are_taken() {
    for commands in
        [&["GET __key__"][..], &["SET a:__key__ __data__", "GET a:__key__", "GET b:__key__"], &["get rcb:load:x", "set y:__key__ __data__"]]
    {
        assert_eq!(check_mix(&mix(commands, options())), Ok(()), "{commands:?}");
    }
}

#[test]
fn everything_else_is_refused_and_named() {
    let small = MixOptions { data: DataSize::Range(15, 64), ..options() };
    let unfilled = MixOptions { prefilled: false, ..options() };
    for (commands, options, part) in [
        (&["GET __key__", "DEL __key__"][..], options(), "`DEL __key__`"),
        (&["SET __key__ __data__ EX 5"], options(), "neither GET key nor SET key __data__"),
        (&["HKEYS __key__"], options(), "`HKEYS __key__`"),
        (&["GET theirs"], options(), "not of the run"),
        (&["SET __key__ abcdefghijklmnopqrstuvwxyz"], options(), "__data__ and nothing else"),
        (&["SET __key__ x__data__"], options(), "__data__ and nothing else"),
        (&["GET __key__:__field__"], options(), "leave __field__"),
        (&["GET __key__", "GET rcb:load:000000000003"], options(), "write both alike"),
        (&["GET __key__"], small, "give -d 16 or more"),
        (&["GET __key__"], unfilled, "prefill"),
    ] {
        let reason = check_mix(&mix(commands, options)).unwrap_err();
        assert!(reason.starts_with("--csc: ") && reason.contains(part), "{commands:?}: {reason}");
    }
}

#[test]
fn every_key_is_filled_with_version_0_and_the_mixs_own_bytes() {
    let mix = mix(&["SET a:__key__ __data__", "GET b:__key__"], MixOptions { data: DataSize::Range(16, 64), ..options() });
    let filled: Vec<_> = prefill(&mix).collect();
    let names: BTreeSet<Vec<u8>> = filled.iter().map(|command| command.key().unwrap().to_vec()).collect();
    assert_eq!(names, mix.keys().chain(keys()).collect());
    let mut slot = Slot::default();
    for index in 0..100 {
        mix.generate(index, &mut slot);
        let command = filled.iter().find(|command| command.key() == slot.command.key()).unwrap();
        let value = command.args().nth(1).unwrap();
        assert_eq!(value[..VERSION_BYTES], digits(0));
        assert_eq!(value[VERSION_BYTES..], mix.expected_value(&slot)[VERSION_BYTES..]);
    }
}

#[test]
fn each_key_has_a_place_of_its_own() {
    let mix = mix(&["SET a:__key__ __data__", "GET b:__key__", "GET rcb:load:c", "GET a:__key__"], options());
    assert_eq!(mix.key_count(), 21);
    let (mut slot, mut places) = (Slot::default(), std::collections::BTreeMap::new());
    for index in 0..1_000 {
        mix.generate(index, &mut slot);
        let place = mix.place(&slot);
        assert!(place < 21);
        assert_eq!(places.entry(place).or_insert_with(|| slot.command.key().unwrap().to_vec()), slot.command.key().unwrap());
    }
    assert_eq!(places.len(), 21);
}
