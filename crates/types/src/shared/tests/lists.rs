//! Lists: pushes, pops and edits at all positions, with chunks of a few elements, some of them
//! large.

use super::{Draws, Subject, rounds, run_changes};
use crate::list::{self, End, List, Waste};
use crate::{Limits, Record};
use std::collections::VecDeque;

struct Subjected {
    record: Option<Record>,
    model: VecDeque<Vec<u8>>,
    limits: Limits,
}

fn text(draws: &mut Draws) -> Vec<u8> {
    match draws.below(40) {
        0 => vec![b'y'; 9000 + draws.below(9000)],
        1..8 => vec![b'x'; draws.below(300)],
        _ => draws.below(1000).to_string().into_bytes(),
    }
}

impl Subjected {
    fn new(draws: &mut Draws, size: i64, compress: usize, elements: usize) -> Self {
        let limits = Limits { list_size: size, list_compress: compress, ..Limits::default() };
        let model: VecDeque<Vec<u8>> = (0..elements).map(|_| text(draws)).collect();
        let texts: Vec<&[u8]> = model.iter().map(|text| &text[..]).collect();
        let record = list::create(b"list", 0, End::Right, &texts, &limits);
        Subjected { record: Some(record), model, limits }
    }

    fn change(&mut self, change: impl FnOnce(Record, &Limits, &mut Waste) -> Record) {
        let mut waste = Waste::default();
        let record = self.record.take().expect("put back");
        self.record = Some(change(record, &self.limits, &mut waste));
        drop(waste.into_record());
    }

    fn push(&mut self, end: End, text: Vec<u8>) {
        self.change(|record, limits, _| list::push(record, end, &[&text], limits));
        match end {
            End::Left => self.model.push_front(text),
            End::Right => self.model.push_back(text),
        }
    }
}

impl Subject for Subjected {
    type Model = VecDeque<Vec<u8>>;

    fn record(&self) -> &Record {
        self.record.as_ref().expect("put back")
    }

    fn model(&self) -> &Self::Model {
        &self.model
    }

    fn step(&mut self, draws: &mut Draws) {
        let end = if draws.once_in(2) { End::Left } else { End::Right };
        // Keep the list long: short lists are not shared.
        if self.model.len() < 20 {
            (0..40).for_each(|_| self.push(end, text(draws)));
        }
        let (len, at) = (self.model.len(), draws.below(self.model.len()));
        match draws.below(14) {
            0..6 => self.push(end, text(draws)),
            6..8 => {
                let n = 1 + draws.below(6);
                self.change(|record, limits, waste| {
                    list::pop(record, end, n, limits, waste, |_| {})
                });
                for _ in 0..n {
                    match end {
                        End::Left => self.model.pop_front(),
                        End::Right => self.model.pop_back(),
                    };
                }
            }
            8..10 => {
                let text = text(draws);
                self.change(|record, limits, waste| list::set(record, at, &text, limits, waste));
                self.model[at] = text;
            }
            10..12 => {
                let (pivot, text) = (self.model[at].clone(), text(draws));
                let after = draws.once_in(2);
                self.change(|record, limits, _| {
                    list::insert(record, &pivot, &text, after, limits).0
                });
                let at = self.model.iter().position(|t| *t == pivot).expect("it is there");
                self.model.insert(at + usize::from(after), text);
            }
            12 => {
                let (gone, most) = (self.model[at].clone(), 1 + draws.below(3));
                self.change(|record, limits, waste| {
                    list::remove(record, end, &gone, most, limits, waste).0
                });
                for _ in 0..most {
                    let found = match end {
                        End::Left => self.model.iter().position(|t| *t == gone),
                        End::Right => self.model.iter().rposition(|t| *t == gone),
                    };
                    found.map(|at| self.model.remove(at));
                }
            }
            _ => {
                let (start, end) = (draws.below(len / 8), draws.below(len / 8));
                let count = len - start - end;
                self.change(|record, limits, waste| {
                    list::trim(record, start, count, limits, waste)
                });
                self.model.drain(..start);
                self.model.truncate(count);
            }
        }
    }

    fn read(record: &Record) -> Self::Model {
        let list = List::of(record).expect("a list");
        let mut seen = VecDeque::new();
        list.each_from(0, |value| {
            seen.push_back(value.to_vec());
            true
        });
        assert_eq!(list.len(), seen.len());
        seen
    }
}

#[test]
fn list_snapshots_are_stable() {
    for seed in 0..if cfg!(miri) { 1 } else { 12 } {
        let mut draws = Draws(seed);
        let size = [3, 1, -1, 12][draws.below(4)];
        let compress = [0, 0, 1, 3][draws.below(4)];
        let elements = 30 + draws.below(if cfg!(miri) { 10 } else { 600 });
        let subject = Subjected::new(&mut draws, size, compress, elements);
        run_changes(subject, &mut draws, rounds(120), 25);
    }
}
