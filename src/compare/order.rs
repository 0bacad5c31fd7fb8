//! The order of the subjects in each round.
//!
//! What runs first, and after whom, gets another machine: caches, clocks and the neighbour's load. The order is drawn,
//! because the rank test stands on it ([`signed_rank`](super::signed_rank)), and balanced, because a drawn order alone
//! would leave a session of 12 rounds with 9 of one kind now and then.

use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;

/// Up to this many subjects a block holds every order once (3! = 6 rounds).
const EVERY_ORDER: usize = 3;

/// Orders of the subjects, a round each, without end.
///
/// They come in blocks. Of up to three subjects a block holds every order once, shuffled. Of more it is a Latin square, as
/// many rounds as subjects, in which each subject has each place once: the turns of a shuffled order, themselves shuffled.
#[derive(Debug)]
pub struct Orders {
    subjects: usize,
    random: StdRng,
    block: Vec<Vec<usize>>,
}

impl Orders {
    /// The orders of so many subjects that belong to a seed.
    #[must_use]
    pub fn new(subjects: usize, seed: u64) -> Self {
        Self { subjects, random: StdRng::seed_from_u64(seed), block: Vec::new() }
    }

    /// The rounds after which every subject had every place equally often.
    #[must_use]
    pub fn block(subjects: usize) -> usize {
        if subjects <= EVERY_ORDER { (1..=subjects).product() } else { subjects }
    }
}

impl Iterator for Orders {
    type Item = Vec<usize>;

    fn next(&mut self) -> Option<Vec<usize>> {
        if self.block.is_empty() {
            let mut first: Vec<usize> = (0..self.subjects).collect();
            self.block = if self.subjects <= EVERY_ORDER {
                every_order(&first)
            } else {
                first.shuffle(&mut self.random);
                (0..self.subjects).map(|turn| first.iter().cycle().skip(turn).take(self.subjects).copied().collect()).collect()
            };
            self.block.shuffle(&mut self.random);
        }
        self.block.pop()
    }
}

fn every_order(subjects: &[usize]) -> Vec<Vec<usize>> {
    if subjects.is_empty() {
        return vec![Vec::new()];
    }
    let mut orders = Vec::new();
    for (place, first) in subjects.iter().enumerate() {
        let rest = [&subjects[..place], &subjects[place + 1..]].concat();
        orders.extend(every_order(&rest).into_iter().map(|order| [&[*first][..], &order].concat()));
    }
    orders
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_block_of_three_subjects_has_every_order_once() {
        let orders: Vec<_> = Orders::new(3, 5).take(18).collect();
        for block in orders.chunks(Orders::block(3)) {
            assert_eq!(block.iter().collect::<BTreeSet<_>>().len(), 6);
        }
        assert_eq!(orders, Orders::new(3, 5).take(18).collect::<Vec<_>>(), "a seed gives its orders");
        assert_ne!(orders, Orders::new(3, 6).take(18).collect::<Vec<_>>());
        assert_ne!(orders[..6], orders[6..12], "blocks are shuffled anew");
    }

    #[test]
    fn a_block_of_five_subjects_has_every_subject_in_every_place() {
        let block: Vec<_> = Orders::new(5, 1).take(Orders::block(5)).collect();
        for place in 0..5 {
            assert_eq!(block.iter().map(|order| order[place]).collect::<BTreeSet<_>>().len(), 5);
        }
        assert_eq!(Orders::new(1, 1).next(), Some(vec![0]));
    }
}
