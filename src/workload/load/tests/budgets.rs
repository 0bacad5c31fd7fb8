//! How many commands are sent, and which.

use std::collections::BTreeMap;
use std::time::Duration;

use super::fake::{Answer, Fake, job, load, mix, mix_with, spawn_load};
use crate::workload::load::audited::expected;
use crate::workload::load::engine::{Ended, Job};
use crate::workload::load::issue::{Piped, Single, Transacted};
use crate::workload::mix::{Distribution, Mix, MixOptions, Slot};

/// Numbers `first` to `first + count` of the mix's sequence, as the client sees them.
fn sequence(mix: &Mix, first: u64, count: u64) -> Vec<String> {
    let mut slot = Slot::default();
    let commands = (first..first + count).map(|index| {
        mix.generate(index, &mut slot);
        slot.command.args().fold(slot.command.name().to_owned(), |text, word| text + " " + &String::from_utf8_lossy(word))
    });
    commands.collect()
}

fn sorted(mut commands: Vec<String>) -> Vec<String> {
    commands.sort_unstable();
    commands
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exactly_the_commands_of_the_budget_are_sent_each_once() {
    let options = MixOptions { keys: 100_000, distribution: Distribution::Sequential, ..MixOptions::default() };
    let mix = mix_with(&["SET __key__ __data__"], options);
    for (callers, pipeline, commands) in
        [(1, 1, 1), (3, 1, 1_000), (50, 1, 1_003), (50, 1, 7), (1_000, 1, 10), (3, 16, 1_003), (50, 16, 1_600), (50, 16, 5), (7, 33, 999)]
    {
        let job = Job { callers, pipeline, first: 40, ..job(commands) };
        let fake = Fake::prompt();
        let outcome = match pipeline {
            1 => load(Single(fake.clone()), &mix, &job).await,
            _ => load(Piped(fake.clone()), &mix, &job).await,
        };
        let case = format!("{callers} callers, pipelines of {pipeline}, {commands} commands");
        assert_eq!(sorted(fake.commands()), sorted(sequence(&mix, 40, commands)), "{case}");
        assert_eq!((outcome.ended, outcome.total.done(), outcome.total.failed()), (Ended::Done, commands, 0), "{case}");
        assert_eq!(outcome.total.0[0].service.len(), commands, "{case}");
        assert_eq!(outcome.batches, fake.sent().len() as u64, "{case}");
        let partial = fake.sent().iter().filter(|sent| sent.commands.len() != pipeline).count();
        assert!(fake.sent().iter().all(|sent| sent.commands.len() <= pipeline) && partial <= 1, "{case}: {partial} partial pipelines");
        assert!(outcome.kept.is_none() && outcome.total.0[0].planned.is_empty(), "{case}: a closed loop has no planned times");
    }
}

#[tokio::test]
async fn no_more_commands_are_under_way_than_callers() {
    let fake = Fake::new(|_, _| Answer::Held);
    let running = spawn_load(Single(fake.clone()), &mix(&["PING"]), &Job { callers: 5, ..job(12) });
    for number in 0..12 {
        fake.until_sent((number + 5).min(12)).await;
        fake.until_under_way((12 - number).min(5)).await;
        assert_eq!(fake.sent().len(), (number + 5).min(12), "a caller waits for its reply before its next command");
        fake.release(number);
    }
    assert_eq!(running.await.unwrap().total.done(), 12);
}

#[tokio::test]
async fn no_command_is_sent_once_the_time_is_over_and_those_under_way_are_counted() {
    let time = Duration::from_millis(30);
    for commands in [None, Some(1_000)] {
        let fake = Fake::new(|_, _| Answer::Held);
        let running = spawn_load(Single(fake.clone()), &mix(&["PING"]), &Job { callers: 4, commands, time: Some(time), ..job(1) });
        fake.until_under_way(4).await;
        // The clock was started before the first command.
        tokio::time::sleep(time).await;
        fake.release_all();
        let outcome = running.await.unwrap();
        assert_eq!((outcome.ended, outcome.total.done(), fake.sent().len()), (Ended::Done, 4, 4));
        assert!(outcome.elapsed >= time, "up to the last reply");
    }
    let outcome = load(Single(Fake::prompt()), &mix(&["PING"]), &Job { time: Some(Duration::from_secs(600)), ..job(20) }).await;
    assert_eq!((outcome.ended, outcome.total.done()), (Ended::Done, 20), "whichever comes first");
    assert!(outcome.elapsed < Duration::from_secs(600), "{:?}", outcome.elapsed);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_command_of_a_mix_is_counted_under_its_own_name() {
    let commands = ["GET a:__key__", "SET b:__key__ 1", "PING", "INCR c:__key__"];
    let mix = mix(&commands);
    for pipeline in [1, 8] {
        let fake = Fake::prompt();
        let job = Job { pipeline, ..job(2_000) };
        let outcome = match pipeline {
            1 => load(Single(fake.clone()), &mix, &job).await,
            _ => load(Piped(fake.clone()), &mix, &job).await,
        };
        let mut sent: BTreeMap<String, u64> = BTreeMap::new();
        for command in fake.commands() {
            *sent.entry(command.split(' ').next().unwrap().to_ascii_lowercase()).or_default() += 1;
        }
        assert_eq!(sent.values().sum::<u64>(), 2_000);
        for (entry, counts) in mix.entries().iter().zip(&outcome.total.0) {
            assert_eq!((counts.done, counts.service.len()), (sent[&entry.name], sent[&entry.name]), "{}", entry.name);
        }
        assert_eq!(expected(&mix, &job, &outcome, &[], 1).calls, sent, "what the audit asks of the servers");
    }
}

#[tokio::test]
async fn transactions_are_sent_whole_and_their_multi_and_exec_are_no_commands_of_ours() {
    let fake = Fake::prompt();
    let (mix, job) = (mix(&["INCR __key__"]), Job { callers: 2, pipeline: 4, transaction: true, ..job(10) });
    let outcome = load(Transacted(fake.clone()), &mix, &job).await;
    let mut sizes: Vec<usize> = fake.sent().iter().map(|sent| sent.commands.len()).collect();
    sizes.sort_unstable();
    assert_eq!(sizes, [2, 4, 4]);
    assert!(fake.sent().iter().all(|sent| sent.transaction));
    assert_eq!((outcome.total.done(), outcome.batches), (10, 3));
    let wanted = [("exec", 3), ("incr", 10), ("multi", 3)].map(|(name, calls)| (name.to_owned(), calls));
    assert_eq!(expected(&mix, &job, &outcome, &[], 1).calls, BTreeMap::from(wanted));
}
