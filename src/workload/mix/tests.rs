use std::collections::{HashMap, HashSet};

use proptest::prelude::*;

use super::*;

fn specs(commands: &[&str]) -> Vec<CommandSpec> {
    commands.iter().map(|text| CommandSpec::parse(text).unwrap()).collect()
}

fn mix_of(commands: &[&str], options: MixOptions) -> Mix {
    Mix::new(specs(commands), options).unwrap().0
}

fn mix(commands: &[&str]) -> Mix {
    mix_of(commands, MixOptions { keys: 1_000, ..MixOptions::default() })
}

/// Name and arguments, separated by spaces.
fn shown(command: &Command) -> String {
    command.args().fold(command.name().to_owned(), |text, word| format!("{text} {}", String::from_utf8_lossy(word)))
}

fn command_at(mix: &Mix, index: u64) -> String {
    let mut slot = Slot::default();
    mix.generate(index, &mut slot);
    shown(&slot.command)
}

const VARIED: &[&str] =
    &["SET __key__ __data__", "GET __key__", "HSET h:__key__ f:__field__ __data__", "MSET a:__key__ __data__ b:__key__ x", "PING"];

#[test]
fn one_seed_gives_one_sequence_in_whatever_order_it_is_drawn() {
    for distribution in ["uniform", "sequential", "zipfian", "gaussian"] {
        let options = MixOptions { distribution: distribution.parse().unwrap(), data: DataSize::Range(0, 100), ..MixOptions::default() };
        let (a, b) = (mix_of(VARIED, options.clone()), mix_of(VARIED, options.clone()));
        let other = mix_of(VARIED, MixOptions { seed: 1, ..options });
        let forward: Vec<String> = (0..10_000).map(|index| command_at(&a, index)).collect();
        let mut slot = Slot::default();
        for index in (0..10_000).rev() {
            b.generate(index, &mut slot);
            assert_eq!(shown(&slot.command), forward[index as usize], "{distribution}, command {index}");
        }
        let same = (0..10_000).filter(|&index| command_at(&other, index) == forward[index as usize]).count();
        // Where both chose PING, or in sequence both GET: twice a fifth of a fifth.
        assert!(same < 1_000, "{distribution}: {same}");
    }
}

#[test]
fn a_known_seed_gives_the_known_sequence() {
    let mix = mix_of(
        &["SET __key__ __data__", "GET __key__", "HSET h:__key__ f:__field__ __data__"],
        MixOptions { seed: 12_345, keys: 1_000, data: DataSize::Range(3, 8), ..MixOptions::default() },
    );
    // A change here changes every published run: bump it only on purpose, and say so.
    let sequence: Vec<String> = (0..8).map(|index| command_at(&mix, index)).collect();
    assert_eq!(sequence, GOLDEN);
}

const GOLDEN: [&str; 8] = [
    "SET rcb:load:000000000676 Cm3M",
    "GET rcb:load:000000000295",
    "GET rcb:load:000000000753",
    "HSET rcb:load:h:000000000097 f:000000000008 t2iu2vaI",
    "HSET rcb:load:h:000000000996 f:000000000006 ouTFg",
    "HSET rcb:load:h:000000000539 f:000000000001 x8xP",
    "HSET rcb:load:h:000000000899 f:000000000000 M1BmoQ5",
    "GET rcb:load:000000000502",
];

#[test]
fn entries_come_in_their_ratios_and_never_at_ratio_0() {
    let mut commands = specs(&["ECHO 0", "PING", "ECHO 1", "ECHO 2"]);
    Mix::ratios(&mut commands, &[0.0, 0.25, 0.75, 0.0]).unwrap();
    let (mix, notices) = Mix::new(commands, MixOptions::default()).unwrap();
    assert!(notices.is_empty(), "{notices:?}");
    let mut counts = [0; 4];
    let mut slot = Slot::default();
    for index in 0..100_000 {
        mix.generate(index, &mut slot);
        counts[slot.entry] += 1;
    }
    // 25,000 with a deviation of 137.
    assert!((24_300..25_700).contains(&counts[1]), "{counts:?}");
    assert_eq!((counts[0], counts[3]), (0, 0));
    assert_eq!(mix.entries()[1].ratio, 0.25);
}

#[test]
fn mset_draws_each_key_and_gives_each_its_own_value() {
    let writer =
        mix_of(&["SET __key__ __data__"], MixOptions { distribution: Distribution::Sequential, keys: 1_000, ..MixOptions::default() });
    let mut values = HashMap::new();
    let mut slot = Slot::default();
    for index in 0..1_000 {
        writer.generate(index, &mut slot);
        let words: Vec<&[u8]> = slot.command.args().collect();
        values.insert(words[0].to_vec(), words[1].to_vec());
    }
    let (mix, _) = Mix::new(vec![preset("mset").unwrap()], MixOptions { keys: 1_000, ..MixOptions::default() }).unwrap();
    let mut distinct = 0;
    for index in 0..100 {
        mix.generate(index, &mut slot);
        let words: Vec<&[u8]> = slot.command.args().collect();
        assert_eq!(words.len(), 20);
        for pair in words.chunks(2) {
            assert_eq!(values[pair[0]], pair[1]);
        }
        distinct += words.iter().step_by(2).collect::<HashSet<_>>().len();
    }
    // About 4.4 pairs among a hundred times ten keys of 1000 are equal by chance.
    assert!((970..=1_000).contains(&distinct), "{distinct}");
}

#[test]
fn sequential_keys_of_one_command_follow_each_other() {
    let mix =
        mix_of(&["MSET __key__ 1 __key__ 2"], MixOptions { keys: 5, distribution: Distribution::Sequential, ..MixOptions::default() });
    assert_eq!(command_at(&mix, 0), "MSET rcb:load:000000000000 1 rcb:load:000000000001 2");
    assert_eq!(command_at(&mix, 2), "MSET rcb:load:000000000004 1 rcb:load:000000000000 2");
}

#[test]
fn a_read_expects_what_another_index_wrote() {
    let options = MixOptions { keys: 50, data: DataSize::Range(0, 200), prefilled: true, ..MixOptions::default() };
    let mix = mix_of(&["SET __key__ __data__", "GET __key__"], options);
    let mut written: HashMap<Vec<u8>, Vec<u8>> =
        mix.prefill().map(|command| (command.args().next().unwrap().to_vec(), command.args().nth(1).unwrap().to_vec())).collect();
    assert_eq!(written.len(), 50);
    let (mut slot, mut reads) = (Slot::default(), 0);
    for index in 0..2_000 {
        mix.generate(index, &mut slot);
        let key = slot.command.args().next().unwrap().to_vec();
        if slot.entry == 0 {
            let value = slot.command.args().nth(1).unwrap().to_vec();
            assert_eq!(mix.expected_value(&slot), value);
            assert_eq!(written.insert(key, value.clone()), Some(value), "a key keeps its value");
        } else {
            assert_eq!(mix.expected_value(&slot), written[&key]);
            reads += 1;
        }
    }
    assert!(reads > 800, "{reads}");
}

#[test]
fn values_of_different_patterns_differ_for_the_same_number() {
    let mix = mix_of(&["MSET a:__key__ __data__ b:__key__ __data__"], MixOptions { keys: 1, ..MixOptions::default() });
    let mut slot = Slot::default();
    mix.generate(0, &mut slot);
    let words: Vec<&[u8]> = slot.command.args().collect();
    assert_ne!(words[1], words[3]);
}

#[test]
fn data_without_a_key_is_a_value_of_the_index() {
    let mix = mix(&["ECHO __data__"]);
    assert_eq!(command_at(&mix, 4), command_at(&mix, 4));
    assert_ne!(command_at(&mix, 4), command_at(&mix, 5));
    assert_eq!(command_at(&mix, 4).len(), "ECHO ".len() + 64);
}

/// The checks of a mix of 10 keys and 3 fields.
fn checks(commands: &[&str], prefilled: bool) -> Vec<Check> {
    let options = MixOptions { keys: 10, field_range: 3, hash_fields: 3, prefilled, ..MixOptions::default() };
    mix_of(commands, options).entries().iter().map(|entry| entry.check).collect()
}

#[test]
fn a_get_is_checked_as_far_as_the_other_commands_leave_its_keys_alone() {
    let get = |others: &[&str], prefilled| checks(&[&["GET __key__"], others].concat(), prefilled)[0];
    let (must, may) = (Check::Value { required: true }, Check::Value { required: false });
    assert_eq!(get(&[], false), may);
    for others in [
        &[][..],
        &["SET __key__ __data__"],
        &["set __key__ __data__ XX GET", "MSET __key__ __data__ __key__ __data__", "STRLEN __key__"],
        &["HSET h:__key__ f __data__", "LPUSH list __key__", "APPEND other:__key__ x", "SET __key__:a __data__"],
    ] {
        assert_eq!(get(others, true), must, "{others:?}");
    }
    for others in
        ["DEL __key__", "GETDEL __key__", "EXPIRE __key__ 1", "SETEX __key__ 10 __data__", "SET __key__ __data__ PX 5", "FLUSHALL"]
    {
        assert_eq!(get(&[others], true), may, "{others}");
    }
    for others in [
        "INCR __key__",
        "APPEND __key__ x",
        "SETRANGE __key__ 0 x",
        "SET __key__ x",
        "SET __key__ x__data__",
        "EVAL 'return 1' 1 __key__",
        "RENAME a:__key__ __key__",
        "GETSET __key__ other",
        "SET rcb:load:000000000001 __data__",
        "JSON.SET __key__ $ 1",
    ] {
        assert_eq!(get(&[others], true), Check::Nothing, "{others}");
    }
    assert_eq!(get(&["DEL __key__", "INCR __key__"], true), Check::Nothing);
    assert_eq!(checks(&["GET foreign"], true), [Check::Nothing]);
}

#[test]
fn another_size_for_the_same_keys_leaves_a_get_unchecked() {
    let mut commands = specs(&["SET __key__ __data__", "SET __key__ __data__", "GET __key__"]);
    commands[1].data = Some(DataSize::Fixed(5));
    let (mix, _) = Mix::new(commands, MixOptions { prefilled: true, ..MixOptions::default() }).unwrap();
    assert_eq!(mix.entries()[2].check, Check::Nothing);
}

#[test]
fn other_replies_are_checked_where_they_are_certain() {
    assert_eq!(
        checks(&["PING", "PING x", "SET __key__ a", "SET __key__ a NX", "MSET __key__ a", "LPUSH l:__key__ a"], true),
        [Check::Pong, Check::Nothing, Check::Ok, Check::Nothing, Check::Ok, Check::Nothing]
    );
    assert_eq!(checks(&["HKEYS h:__key__"], true), [Check::Count(3)]);
    assert_eq!(checks(&["HKEYS h:__key__"], false), [Check::Nothing]);
    assert_eq!(checks(&["HKEYS h:__key__", "HSET h:__key__ f__field__ __data__", "HGET h:__key__ f__field__"], true)[0], Check::Count(3));
    for other in ["HSET h:__key__ g __data__", "HDEL h:__key__ f", "DEL h:__key__", "HINCRBY h:__key__ f 1", "FLUSHDB"] {
        assert_eq!(checks(&["HKEYS h:__key__", other], true)[0], Check::Nothing, "{other}");
    }
}

#[test]
fn entries_say_how_they_are_called_and_counted() {
    let mix = mix(&[
        "get __key__",
        "SET __key__ v",
        "SET __key__ v EX 1",
        "HKEYS h:__key__",
        "CONFIG Get maxmemory",
        "EVAL 'x' 0",
        "blpop l:__key__ 1",
    ]);
    let entries = mix.entries();
    let calls: Vec<Call> = entries.iter().map(|entry| entry.call).collect();
    assert_eq!(calls, [Call::Get, Call::Set, Call::Any, Call::Hkeys, Call::Any, Call::Any, Call::Any]);
    assert_eq!((entries[0].name.as_str(), entries[0].label.as_str()), ("get", "get __key__"));
    assert_eq!((entries[4].name.as_str(), entries[4].subcommand.as_deref()), ("config", Some("get")));
    assert_eq!(entries[1].subcommand, None);
    assert!(entries[5].runs_scripts && !entries[4].runs_scripts && entries[6].is_blocking && !entries[5].is_blocking);
}

#[test]
fn clashes_of_types_are_found_and_presets_have_none() {
    let clash = |commands: &[&str]| mix(commands).likely_clash();
    assert_eq!(clash(&["SET __key__ __data__", "PING", "LPUSH __key__ x"]), Some((0, 2)));
    assert_eq!(clash(&["INCR __key__", "SET __key__ __data__"]), Some((0, 1)));
    assert_eq!(clash(&["SET __key__ 5", "INCR __key__", "DEL __key__"]), None);
    assert_eq!(clash(&["SADD s:__key__ __key__", "GET __key__"]), None);
    let all = PRESETS.iter().map(|(name, _)| preset(name).unwrap()).collect();
    let (mix, notices) = Mix::new(all, MixOptions { keys: 3, ..MixOptions::default() }).unwrap();
    assert_eq!((mix.likely_clash(), notices), (None, vec![]));
    assert_eq!(mix.entries()[15].label, "lrange_100");
    let error = preset("nope").unwrap_err().to_string();
    assert!(error.contains("`nope`") && error.contains("lrange_600, mset"), "{error}");
}

#[test]
fn prefill_writes_each_key_once_in_its_type() {
    let commands = [
        "GET __key__",
        "HGET h:__key__ f__field__",
        "INCR c:__key__",
        "SPOP s:__key__",
        "ZADD z:__key__ __field__ m__field__",
        "SET __key__ x",
    ];
    let options = MixOptions { keys: 2, field_range: 9, hash_fields: 2, data: DataSize::Fixed(3), ..MixOptions::default() };
    let mix = mix_of(&commands, options);
    let commands: Vec<String> = mix.prefill().map(|command| shown(&command)).collect();
    assert_eq!(commands.len(), 10);
    assert_eq!(mix.prefill_count(), 10);
    assert!(commands[1].starts_with("SET rcb:load:000000000001 ") && commands[1].len() == 29, "{}", commands[1]);
    let value = &commands[2][commands[2].len() - 3..];
    assert_eq!(commands[2], format!("HSET rcb:load:h:000000000000 f000000000000 {value} f000000000001 {value}"));
    assert_eq!(commands[5], "SET rcb:load:c:000000000001 0");
    assert_eq!(commands[6], "SADD rcb:load:s:000000000000 member:000000000000 member:000000000001");
    assert_eq!(commands[9], "ZADD rcb:load:z:000000000001 0 m000000000000 1 m000000000001");
    let keys: HashSet<Vec<u8>> = mix.keys().collect();
    assert_eq!((keys.len() as u64, mix.key_count()), (10, 10));
    assert!(mix.prefill().all(|command| keys.contains(command.args().next().unwrap())));
}

#[test]
fn a_list_is_as_long_as_the_longest_range_that_is_read() {
    let (mix, _) =
        Mix::new(vec![preset("lpop").unwrap(), preset("lrange_300").unwrap()], MixOptions { keys: 1, ..MixOptions::default() }).unwrap();
    let command = mix.prefill().next().unwrap();
    assert_eq!((command.name(), command.args().count()), ("RPUSH", 301));
}

#[test]
fn large_reads_have_few_keys_and_values_of_their_own_size() {
    let options = MixOptions { keys: 100, data: DataSize::Fixed(8), prefilled: true, ..MixOptions::default() };
    let (mix, _) = Mix::new(large_mix(0.1, 1 << 20), options).unwrap();
    let large: HashMap<Vec<u8>, Vec<u8>> = mix
        .prefill()
        .map(|command| (command.args().next().unwrap().to_vec(), command.args().nth(1).unwrap().to_vec()))
        .filter(|(_, value)| value.len() == 1 << 20)
        .collect();
    assert_eq!((large.len(), mix.prefill_count()), (16, 116));
    let mut slot = Slot::default();
    let mut counts = [0; 2];
    for index in 0..1_000 {
        mix.generate(index, &mut slot);
        counts[slot.entry] += 1;
        let wanted = if slot.entry == 0 { 8 } else { 1 << 20 };
        assert_eq!(mix.expected_value(&slot).len(), wanted);
        if slot.entry == 1 {
            assert_eq!(large[slot.command.args().next().unwrap()], mix.expected_value(&slot));
        }
    }
    assert!((60..140).contains(&counts[1]), "{counts:?}");
    assert!(mix.entries().iter().all(|entry| entry.check == Check::Value { required: true } && entry.call == Call::Get));
    assert_eq!(mix.entries()[1].label, "large GET");
}

#[test]
fn what_is_wrong_is_said_in_a_sentence() {
    let error = |commands: &[&str], options: MixOptions| Mix::new(specs(commands), options).err().unwrap().to_string();
    let none = || MixOptions { keys: 0, field_range: 0, ..MixOptions::default() };
    assert!(error(&["GET __key__"], none()).contains("-r 100000"));
    assert!(error(&["ECHO __field__"], none()).contains("--field-range"));
    assert!(Mix::new(specs(&["GET k", "ECHO __data__"]), none()).is_ok(), "no placeholder needs no range");
    assert!(error(&["__key__ a"], MixOptions::default()).contains("first word"));
    for command in ["SUBSCRIBE a", "multi", "CLIENT reply OFF"] {
        assert!(error(&[command], MixOptions::default()).contains("leave it out"), "{command}");
    }
    assert!(Mix::new(specs(&["CLIENT ID"]), none()).is_ok());
    assert!(error(&["GET __key__"], MixOptions { keys: MOST_KEYS + 1, ..MixOptions::default() }).contains("twelve digits"));
    assert!(error(&["GET k"], MixOptions { data: DataSize::Range(2, 1), ..MixOptions::default() }).contains("`2-1`"));
    let zipfian = MixOptions { distribution: Distribution::Zipfian { exponent: -1.0 }, ..MixOptions::default() };
    assert!(error(&["GET k"], zipfian).contains("`zipfian:-1`"));
    assert_eq!(Mix::new(vec![], MixOptions::default()).err(), Some(MixError::NoCommand));
    assert_eq!(Mix::new(vec![CommandSpec::default()], MixOptions::default()).err(), Some(MixError::EmptyCommand));
}

#[test]
fn a_key_of_somebody_else_is_announced() {
    let notices = Mix::new(specs(&["SET mine v", "GET __key__", "PING", "JSON.GET x"]), MixOptions::default()).unwrap().1;
    assert_eq!(notices.len(), 1, "{notices:?}");
    assert!(notices[0].contains("`SET mine v`") && notices[0].contains("stays after the run"), "{notices:?}");
}

#[test]
fn a_slot_that_has_grown_keeps_its_memory() {
    let mix = mix(VARIED);
    let mut slot = Slot::default();
    (0..1_000).for_each(|index| mix.generate(index, &mut slot));
    let place = slot.command.name().as_ptr();
    for index in 1_000..20_000 {
        mix.generate(index, &mut slot);
        assert_eq!(slot.command.name().as_ptr(), place);
    }
}

proptest! {
    #[test]
    fn keys_are_in_range_and_under_the_prefix(
        seed in any::<u64>(),
        index in any::<u64>(),
        keys in 1..MOST_KEYS,
        shape in prop::sample::select(vec!["uniform", "sequential", "zipfian", "zipfian:1", "zipfian:2.5", "gaussian"]),
    ) {
        let mix = mix_of(&["GET a:__key__"], MixOptions { seed, keys, distribution: shape.parse().unwrap(), ..MixOptions::default() });
        let mut slot = Slot::default();
        mix.generate(index, &mut slot);
        prop_assert!(slot.key < keys);
        prop_assert_eq!(shown(&slot.command), format!("GET rcb:load:a:{:012}", slot.key));
    }
}

#[test]
fn a_command_reaches_our_keys_others_or_nobody_knows() {
    let reach = |text: &str| {
        let (mix, _) = Mix::new(vec![CommandSpec::parse(text).unwrap()], MixOptions::default()).unwrap();
        mix.entries()[0].reach.clone()
    };
    for ours in
        ["PING", "SET __key__ value", "MSET __key__ a __key__ b", "EVAL 'return 1' 1 __key__ x", "EVAL 'return 1' 0", "BLPOP __key__ 1"]
    {
        assert_eq!(reach(ours), Reach::Ours, "{ours}");
    }
    for foreign in [
        "SET user:1 v",
        "RENAME __key__ user:1",
        "DEL __key__ user:1",
        "MSET __key__ a user:1 b",
        "EVAL 'x' 1 user:1",
        "BLPOP __key__ user:1 1",
    ] {
        assert_eq!(reach(foreign), Reach::Foreign("user:1".into()), "{foreign}");
    }
    for unknown in ["SCRIPT FLUSH", "CLIENT KILL TYPE normal", "LATENCY RESET", "MIGRATE h 1 __key__ 0 10", "JSON.SET __key__ $ 1"] {
        assert_eq!(reach(unknown), Reach::Unknown, "{unknown}");
    }
}
