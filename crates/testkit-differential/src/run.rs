//! Plays episodes on two servers and collects their differences.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::time::Duration;

use super::commands::{self, Comparisons, Group};
use super::deck::Deck;
use super::ear;
use super::generate::{Action, Command, Step};
use super::keyspace;
use super::known::KnownDifferences;
use super::mismatch::Mismatch;
use super::session::Session;
use super::shrink::shrink;
use super::target::Target;
use weft_testkit::client::Reply;
use weft_testkit::rng::Rng;
use weft_testkit::value::Value;

/// Steps of one episode.
const EPISODE: usize = 1500;
/// A run for scripts ends after so many steps for each, even without them.
const STEPS_FOR_A_SCRIPT: usize = 10;
/// Commands sent before their replies are read.
const BATCH: usize = 400;
/// How often an episode is replayed without the step that differed.
const REPLAYS: usize = 30;
/// Longer than the lifetimes that scripts wait for, and than the resolution of a cached clock.
const SLEEP: Duration = Duration::from_millis(5);

/// The parameters of a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The first episode's seed; each later one is higher by one.
    pub seed: u64,
    /// Commands to send, rounded up to whole episodes.
    pub commands: usize,
    /// Runs of scripts and functions among them: the run continues until there are so many.
    pub scripts: usize,
    /// The groups of rules, with their relative frequencies.
    pub groups: Vec<(Group, u32)>,
    /// The run ends after this many differences.
    pub max_differences: usize,
    /// Accepted differences.
    pub known: KnownDifferences,
    /// Whether the keyspace notifications must be equal too.
    pub notifications: bool,
}

/// A difference and the steps to it.
#[derive(Clone, Debug)]
pub struct Difference {
    /// Seed of the episode that found it.
    pub seed: u64,
    /// The command and both replies, or the difference at the end.
    pub what: String,
    /// The steps that lead to it, as few as possible.
    pub steps: Vec<Step>,
}

/// The result of a run.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Commands sent to each server.
    pub commands: usize,
    /// Runs of scripts and functions among them.
    pub scripts: usize,
    /// Equal keyspace notifications.
    pub notifications: usize,
    /// Replies other than errors, so that a run with errors only is noticed.
    pub successes: usize,
    /// How often each row of the known differences matched.
    pub known: BTreeMap<usize, usize>,
    /// The differences, one for each command and type of reply.
    pub differences: Vec<Difference>,
}

/// The two sessions, and the state of the comparison.
pub struct Arena {
    pub(super) ours: Session,
    pub(super) theirs: Session,
    comparisons: Comparisons,
    known: KnownDifferences,
    /// Whether notifications are compared.
    listens: bool,
    /// Counts of the run so far.
    pub(super) outcome: Outcome,
}

/// Runs both servers through random episodes.
///
/// # Errors
/// If a server can't be reached between episodes: it has crashed, and its log has the reason.
pub fn run(ours: &Target, theirs: &Target, options: &Options) -> io::Result<Outcome> {
    let mut arena = Arena::open(ours, theirs, options.known.clone())?;
    if options.notifications {
        arena.ours.listen()?;
        arena.theirs.listen()?;
        arena.listens = true;
    }
    let mut deck = Deck::new(&options.groups);
    arena.remove_unavailable_rules(&mut deck)?;
    let mut seen = BTreeSet::new();
    if let Some(what) = arena.baseline_differences()? {
        arena.outcome.differences.push(Difference { seed: options.seed, what, steps: Vec::new() });
    }
    // Counted in episodes, so that a run ends even if each one stops at its first step.
    let least = options.commands.div_ceil(EPISODE);
    let most = least.max((options.scripts * STEPS_FOR_A_SCRIPT).div_ceil(EPISODE));
    for episode in 0..most {
        let is_done = episode >= least && arena.outcome.scripts >= options.scripts;
        if is_done || arena.outcome.differences.len() >= options.max_differences {
            break;
        }
        let episode = episode as u64;
        let seed = options.seed.wrapping_add(episode);
        let mut rng = Rng::new(seed);
        let steps = (0..EPISODE).map(|_| deck.draw(&mut rng)).collect();
        arena.explore(seed, steps, options.max_differences, &mut seen)?;
    }
    Ok(arena.outcome)
}

impl Arena {
    /// Connects to both.
    pub fn open(ours: &Target, theirs: &Target, known: KnownDifferences) -> io::Result<Arena> {
        Ok(Arena {
            ours: Session::open(ours)?,
            theirs: Session::open(theirs)?,
            comparisons: Comparisons::new(),
            known,
            listens: false,
            outcome: Outcome::default(),
        })
    }

    /// Removes the optional rules whose commands one of the servers lacks.
    fn remove_unavailable_rules(&mut self, deck: &mut Deck) -> io::Result<()> {
        deck.keep_optional(&command_list(&mut self.ours)?);
        deck.keep_optional(&command_list(&mut self.theirs)?);
        Ok(())
    }

    /// Plays an episode. If a step differs, records it and plays the rest without it, so that one
    /// difference doesn't hide later ones.
    fn explore(
        &mut self,
        seed: u64,
        mut steps: Vec<Step>,
        max: usize,
        seen: &mut BTreeSet<String>,
    ) -> io::Result<()> {
        for _ in 0..REPLAYS {
            let Some(found) = self.play(&steps, BATCH)? else { return Ok(()) };
            let Outcome { commands, scripts, successes, .. } = self.outcome;
            // Once more with one command at a time, which finds the exact step.
            let found = self.play(&steps, 1)?.unwrap_or(found);
            let at = found.step;
            if seen.insert(found.key.clone()) {
                let (steps, what) =
                    shrink(steps.clone(), found, |steps, batch| self.play(steps, batch))?;
                self.outcome.differences.push(Difference { seed, what, steps });
            }
            (self.outcome.commands, self.outcome.scripts) = (commands, scripts);
            self.outcome.successes = successes;
            if at == steps.len() || self.outcome.differences.len() >= max {
                return Ok(());
            }
            steps.remove(at);
        }
        Ok(())
    }

    /// Settings of [`commands::BASELINE`] to which the servers reply differently.
    fn baseline_differences(&mut self) -> io::Result<Option<String>> {
        let (ours, theirs) = (self.ours.start_over()?, self.theirs.start_over()?);
        let differing = ours
            .iter()
            .zip(&theirs)
            .zip(commands::BASELINE)
            .filter(|((our, their), _)| our.raw != their.raw);
        let described: Vec<String> = differing
            .map(|((our, their), (name, value))| {
                let args = ["CONFIG", "SET", name, value].map(|arg| arg.as_bytes().to_vec());
                Mismatch::of(0, &args, our, their).what
            })
            .collect();
        Ok((!described.is_empty()).then(|| described.join("\n  ")))
    }

    /// Plays an episode on empty servers; `batch` commands are sent before replies are read.
    ///
    /// # Errors
    /// If a server doesn't reconnect with an empty keyspace.
    pub fn play(&mut self, steps: &[Step], batch: usize) -> io::Result<Option<Mismatch>> {
        self.ours.start_over()?;
        self.theirs.start_over()?;
        if let Some(found) = self.play_steps(steps, batch)? {
            return Ok(Some(found));
        }
        self.ours.reopen()?;
        self.theirs.reopen()?;
        let differs = keyspace::compare(&mut self.ours, &mut self.theirs)?;
        Ok(differs.map(|what| Mismatch {
            step: steps.len(),
            key: "final keyspace".to_string(),
            what: format!("final keyspace, {what}"),
        }))
    }

    fn play_steps(&mut self, steps: &[Step], limit: usize) -> io::Result<Option<Mismatch>> {
        let mut batch = Batch::default();
        for (at, Step(actions)) in steps.iter().enumerate() {
            for action in actions {
                match action {
                    Action::Send(command) if self.listens => {
                        batch.push(at, &ear::without_active_expiry(command));
                        continue;
                    }
                    Action::Send(command) => {
                        batch.push(at, command);
                        continue;
                    }
                    Action::Sync | Action::Sleep => {
                        if let Some(found) = self.flush(&mut batch)? {
                            return Ok(Some(found));
                        }
                        if *action == Action::Sleep {
                            std::thread::sleep(SLEEP);
                        }
                    }
                    Action::Closes => {
                        if let Some(found) = self.flush_and_close(&mut batch)? {
                            return Ok(Some(found));
                        }
                    }
                }
            }
            if batch.sent.len() >= limit
                && let Some(found) = self.flush(&mut batch)?
            {
                return Ok(Some(found));
            }
        }
        self.flush(&mut batch)
    }

    fn flush(&mut self, batch: &mut Batch) -> io::Result<Option<Mismatch>> {
        let answered = batch.answered();
        let ours = self.ours.exchange(&batch.requests, answered);
        let theirs = self.theirs.exchange(&batch.requests, answered);
        self.check(batch, ours, theirs)
    }

    /// Compares the notifications of a batch.
    fn check_notifications(&mut self, sent: &[(usize, Command)]) -> io::Result<Option<Mismatch>> {
        let (ours, theirs) = (self.ours.heard()?, self.theirs.heard()?);
        let Some(what) = ear::difference(&ours, &theirs) else {
            self.outcome.notifications += ours.len();
            return Ok(None);
        };
        // A command that accepts any reply may also cause any notification.
        if sent.iter().any(|(_, command)| self.known.explains_all(&command.args)) {
            return Ok(None);
        }
        // One of these; the exact one is known when they are sent one by one.
        let Some((step, command)) = sent.last() else { return Ok(None) };
        let described: Vec<String> =
            sent.iter().rev().take(4).rev().map(|(_, command)| command.describe()).collect();
        let name = String::from_utf8_lossy(&command.args[0]).to_ascii_uppercase();
        Ok(Some(Mismatch {
            step: *step,
            what: format!("{}\n  {what}", described.join(" ; ")),
            key: format!("{name}: notifications"),
        }))
    }

    fn flush_and_close(&mut self, batch: &mut Batch) -> io::Result<Option<Mismatch>> {
        let answered = batch.answered();
        let ours = self.ours.exchange_last(&batch.requests, answered);
        let theirs = self.theirs.exchange_last(&batch.requests, answered);
        self.ours.reopen()?;
        self.theirs.reopen()?;
        self.check(batch, ours, theirs)
    }

    /// Compares the replies and notifications of a batch, and empties it.
    fn check(
        &mut self,
        batch: &mut Batch,
        ours: Replies,
        theirs: Replies,
    ) -> io::Result<Option<Mismatch>> {
        let sent = std::mem::take(batch).sent;
        let answered: Vec<&(usize, Command)> =
            sent.iter().filter(|(_, command)| command.answered).collect();
        for ((our, their), (step, command)) in ours.0.iter().zip(&theirs.0).zip(&answered) {
            self.outcome.commands += 1;
            self.outcome.scripts += usize::from(command.runs_script());
            self.outcome.successes += usize::from(our.value.error().is_none());
            if self.comparisons.of(&command.args).same(our, their) {
                continue;
            }
            match self.known.explain(&command.args, our, their) {
                Some(row) => *self.outcome.known.entry(row).or_default() += 1,
                None => return Ok(Some(Mismatch::of(*step, &command.args, our, their))),
            }
        }
        let (failed, at, why) = match (ours.1, theirs.1) {
            (None, None) => return self.check_notifications(&sent),
            (Some(why), _) => (self.ours.name(), ours.0.len(), why),
            (None, Some(why)) => (self.theirs.name(), theirs.0.len(), why),
        };
        let (step, command) =
            answered.get(at).copied().or(sent.last()).expect("a batch that failed was not empty");
        let what = format!("{}\n  {failed}: {why}", command.describe());
        let name = String::from_utf8_lossy(&command.args[0]).to_ascii_uppercase();
        Ok(Some(Mismatch { step: *step, what, key: format!("{name}: {failed} fails") }))
    }
}

/// The names in COMMAND LIST, in upper case.
fn command_list(session: &mut Session) -> io::Result<BTreeSet<String>> {
    let reply = session.ask(&["COMMAND", "LIST"])?.value;
    Ok(match reply {
        Value::Array(items) | Value::Set(items) => {
            items.iter().map(|item| item.text().to_ascii_uppercase()).collect()
        }
        _ => BTreeSet::new(),
    })
}

type Replies = (Vec<Reply>, Option<String>);

#[derive(Default)]
struct Batch {
    requests: Vec<u8>,
    /// The commands in `requests` and the steps they belong to.
    sent: Vec<(usize, Command)>,
}

impl Batch {
    fn push(&mut self, step: usize, command: &Command) {
        command.encode_into(&mut self.requests);
        self.sent.push((step, command.clone()));
    }

    fn answered(&self) -> usize {
        self.sent.iter().filter(|(_, command)| command.answered).count()
    }
}

impl Difference {
    /// The command and both replies.
    pub fn in_one_line(&self) -> String {
        self.what.lines().map(str::trim).collect::<Vec<_>>().join("  ")
    }
}

impl std::fmt::Display for Difference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "episode seed {}\n  {}", self.seed, self.what)?;
        writeln!(f, "  steps on empty servers:")?;
        self.steps.iter().try_for_each(|step| write!(f, "{}", step.describe()))
    }
}
