//! The terminal: entered, restored whatever happens, and the loop that draws.
//!
//! Three threads send messages to the one that draws, and it sleeps until one comes: the sampler,
//! the keys, and the signals. So a server that doesn't answer stops no key, and an idle page costs
//! nothing.

use std::io::{self, BufWriter, IsTerminal, Stdout, Write};
use std::panic;
use std::process;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use ratatui::Terminal;
use ratatui::backend::{Backend, CrosstermBackend};
use ratatui::crossterm::cursor::{Hide, Show};
use ratatui::crossterm::event::{self, Event};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    BeginSynchronizedUpdate, EndSynchronizedUpdate, EnterAlternateScreen, LeaveAlternateScreen,
    disable_raw_mode, enable_raw_mode,
};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;

use super::connection::Trouble;
use super::page::{Next, Notice, Page, draw};
use super::rates::{Rates, Sample};
use super::sampler::Sampler;

/// The longest time between two attempts to connect.
const RETRY: Duration = Duration::from_secs(1);
/// The time for which a remark stays, in reports.
const REMARK: u32 = 5;

type Screen = Terminal<CrosstermBackend<BufWriter<Stdout>>>;

/// The events of the drawing thread.
enum Message {
    Sample(Box<Sample>),
    Lost(Trouble),
    Reconnected,
    Event(Event),
    Signal(i32),
}

/// Shows the page until the user quits.
///
/// # Errors
/// If standard output is no terminal, or it fails.
pub fn show(sampler: Sampler, page: Page, interval: Duration) -> anyhow::Result<()> {
    ensure!(io::stdout().is_terminal(), "standard output is not a terminal: use --once");
    let (sender, receiver) = channel();
    let rates = Rates::new(sampler.fixed().clone());
    watch_signals(sender.clone())?;
    let mut screen = enter().context("the terminal fails")?;
    let keys = sender.clone();
    thread::spawn(move || {
        while let Ok(event) = event::read() {
            if keys.send(Message::Event(event)).is_err() {
                return;
            }
        }
    });
    thread::spawn(move || sample(sampler, interval, &sender));
    let signal = run(&mut screen, page, rates, &receiver);
    restore();
    match signal? {
        // As if the signal had ended the program.
        Some(signal) => process::exit(128 + signal),
        None => Ok(()),
    }
}

fn watch_signals(sender: Sender<Message>) -> anyhow::Result<()> {
    let mut signals =
        Signals::new([SIGHUP, SIGINT, SIGQUIT, SIGTERM]).context("cannot watch for signals")?;
    thread::spawn(move || {
        for signal in &mut signals {
            if sender.send(Message::Signal(signal)).is_err() {
                return;
            }
        }
    });
    Ok(())
}

/// Enters the alternate screen. A panic of any thread restores the terminal before its message.
fn enter() -> io::Result<Screen> {
    let print = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        restore();
        print(panic);
        process::exit(101);
    }));
    enter_again()?;
    blank()
}

/// A cleared screen. [`Terminal::clear`] would ask the terminal for its cursor, and the thread that
/// reads keys would get the answer.
fn blank() -> io::Result<Screen> {
    // One write for each frame, however long.
    let output = BufWriter::with_capacity(1 << 16, io::stdout());
    let mut screen = Terminal::new(CrosstermBackend::new(output))?;
    screen.backend_mut().clear()?;
    Ok(screen)
}

fn enter_again() -> io::Result<()> {
    enable_raw_mode()?;
    execute!(io::stdout(), EnterAlternateScreen, Hide)
}

/// A failure is ignored: the terminal may be gone.
fn restore() {
    let _ = execute!(io::stdout(), EndSynchronizedUpdate, LeaveAlternateScreen, Show);
    let _ = disable_raw_mode();
}

/// The loop of the sampling thread. Ends with the receiver.
fn sample(mut sampler: Sampler, interval: Duration, sender: &Sender<Message>) {
    let mut next = Instant::now();
    let mut is_lost = false;
    loop {
        if is_lost && let Err(trouble) = sampler.reconnect() {
            if sender.send(Message::Lost(trouble)).is_err() {
                return;
            }
            thread::sleep(interval.min(RETRY));
            continue;
        }
        // The first report comes after an interval, so its first sample is taken at once.
        let (was_lost, sample) = (is_lost, sampler.sample(next));
        is_lost = sample.is_err();
        let messages = match sample {
            // A connection alone means little: a stopped process accepts it, too.
            Ok(sample) if was_lost => {
                vec![Message::Reconnected, Message::Sample(Box::new(sample))]
            }
            Ok(sample) => vec![Message::Sample(Box::new(sample))],
            Err(trouble) => vec![Message::Lost(trouble)],
        };
        if messages.into_iter().any(|message| sender.send(message).is_err()) {
            return;
        }
        if is_lost {
            thread::sleep(interval.min(RETRY));
        }
        // Without the samples that a silent server made late.
        next = (next + interval).max(Instant::now() + interval / 2);
    }
}

/// Draws after each message that changes the page, until the end; returns the signal that asked
/// for it.
fn run(
    screen: &mut Screen,
    mut page: Page,
    mut rates: Rates,
    receiver: &Receiver<Message>,
) -> anyhow::Result<Option<i32>> {
    let mut remark = 0;
    paint(screen, &mut page)?;
    for message in receiver {
        match message {
            Message::Signal(signal) => return Ok(Some(signal)),
            Message::Lost(trouble) => {
                remark = 0;
                page.notify(Some(Notice::Problem(format!("{trouble}; trying again"))));
            }
            Message::Reconnected => {
                remark = REMARK;
                page.notify(Some(Notice::Remark("connected again".into())));
            }
            Message::Sample(sample) => {
                let Some(report) = rates.add(*sample) else { continue };
                page.update(report);
                if remark > 0 {
                    remark -= 1;
                    if remark == 0 {
                        page.notify(None);
                    }
                }
            }
            Message::Event(Event::Key(key)) => match page.press(key) {
                Next::Nothing => continue,
                Next::Draw => {}
                Next::Clear => *screen = blank()?,
                Next::Suspend => suspend(screen)?,
                Next::Quit => return Ok(None),
            },
            Message::Event(Event::Resize(..)) => {}
            Message::Event(_) => continue,
        }
        paint(screen, &mut page)?;
    }
    Ok(None)
}

/// Draws the difference to what the terminal shows. A terminal that knows synchronized updates
/// shows it at once.
fn paint(screen: &mut Screen, page: &mut Page) -> io::Result<()> {
    ratatui::crossterm::queue!(screen.backend_mut(), BeginSynchronizedUpdate)?;
    screen.draw(|frame| draw(page, frame))?;
    ratatui::crossterm::queue!(screen.backend_mut(), EndSynchronizedUpdate)?;
    Write::flush(screen.backend_mut())
}

/// Gives the terminal back to the shell until it continues this process.
fn suspend(screen: &mut Screen) -> io::Result<()> {
    restore();
    let process = rustix::process::getpid();
    rustix::process::kill_process(process, rustix::process::Signal::STOP)?;
    enter_again()?;
    *screen = blank()?;
    Ok(())
}
