//! The page: its state, what keys do to it, and [`draw()`], which puts it into a frame. No input or
//! output, so tests draw it into memory.
//!
//! | file | holds |
//! |---|---|
//! | [`mod@draw`] | the layout: one panel at a time on small terminals, all of them on large ones |
//! | [`table`] | tables that fit into a width, sorted and scrolled |
//! | [`columns`] | columns of the tables |
//! | [`style`] | colours, and numbers as text |

pub mod columns;
mod draw;
pub mod style;
mod table;

#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::report::Report;
use style::Palette;
use table::View;

pub use draw::draw;

/// The samples that the curves can show; more than the widest terminal has cells.
const HISTORY: usize = 1000;

/// A panel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Panel {
    /// Facts of the server, a line for each.
    Server,
    Threads,
    /// CPUs and network interfaces.
    Cpus,
    Commands,
}

impl Panel {
    /// In the order of their keys.
    pub const ALL: [Panel; 4] = [Panel::Server, Panel::Threads, Panel::Cpus, Panel::Commands];

    /// The name in its title.
    pub fn title(self) -> &'static str {
        match self {
            Panel::Server => "Server",
            Panel::Threads => "Threads",
            Panel::Cpus => "CPUs & network",
            Panel::Commands => "Commands",
        }
    }

    fn at(self) -> usize {
        self as usize
    }
}

/// The step after a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Nothing has changed.
    Nothing,
    Draw,
    /// Draw all of it: something else has written to the terminal.
    Clear,
    /// Stop the process, as Ctrl-Z does elsewhere.
    Suspend,
    Quit,
}

/// The state of the page.
#[derive(Clone, Debug)]
pub struct Page {
    report: Option<Report>,
    /// The newest report while the page is paused.
    newest: Option<Report>,
    is_paused: bool,
    /// Requests per second, the newest last.
    requests: VecDeque<f64>,
    /// The median of the probes since the report before, in microseconds, the newest last.
    medians: VecDeque<f64>,
    focus: Panel,
    views: [View; Panel::ALL.len()],
    shows_help: bool,
    /// The connection's state, if it isn't simply established.
    notice: Option<Notice>,
    palette: Palette,
}

/// A line about the connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// The shown values are old.
    Problem(String),
    /// Something has happened, and is over.
    Remark(String),
}

impl Page {
    /// A page without data.
    pub fn new(palette: Palette) -> Page {
        let mut views = [View::default(); Panel::ALL.len()];
        // The busiest threads and the most frequent commands are first.
        views[Panel::Threads.at()].sort = 1;
        views[Panel::Commands.at()].sort = 1;
        Page {
            report: None,
            newest: None,
            is_paused: false,
            requests: VecDeque::new(),
            medians: VecDeque::new(),
            focus: Panel::Server,
            views,
            shows_help: false,
            notice: None,
            palette,
        }
    }

    /// Takes a new report.
    pub fn update(&mut self, report: Report) {
        if !self.is_paused {
            push(&mut self.requests, report.requests.per_second);
            push(&mut self.medians, report.latency.now_us.unwrap_or(0.0));
            self.report = Some(report);
        } else {
            self.newest = Some(report);
        }
    }

    /// Sets or removes the line about the connection.
    pub fn notify(&mut self, notice: Option<Notice>) {
        self.notice = notice;
    }

    /// Handles a key.
    pub fn press(&mut self, key: KeyEvent) -> Next {
        if key.kind == KeyEventKind::Release {
            return Next::Nothing;
        }
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return match key.code {
                KeyCode::Char('c') => Next::Quit,
                KeyCode::Char('z') => Next::Suspend,
                KeyCode::Char('l') => Next::Clear,
                _ => Next::Nothing,
            };
        }
        if self.shows_help && matches!(key.code, KeyCode::Esc | KeyCode::Char('q')) {
            self.shows_help = false;
            return Next::Draw;
        }
        let panels = Panel::ALL.len();
        match key.code {
            KeyCode::Char('q') | KeyCode::Esc => return Next::Quit,
            KeyCode::Char('?' | 'h') | KeyCode::F(1) => self.shows_help = !self.shows_help,
            KeyCode::Char('p' | ' ') => self.pause(),
            KeyCode::Tab | KeyCode::Right => self.turn_to((self.focus.at() + 1) % panels),
            KeyCode::BackTab | KeyCode::Left => {
                self.turn_to((self.focus.at() + panels - 1) % panels)
            }
            KeyCode::Char(digit @ '1'..='4') => self.turn_to(digit as usize - '1' as usize),
            // The table keeps the sorting column within its columns.
            KeyCode::Char('s') => self.view().sort += 1,
            KeyCode::Char('r') => self.view().is_reversed ^= true,
            KeyCode::Down => self.view().scroll += 1,
            KeyCode::Up => self.scroll_up(1),
            // As far as the table goes.
            KeyCode::PageDown => self.view().scroll += 10,
            KeyCode::PageUp => self.scroll_up(10),
            KeyCode::Home => self.view().scroll = 0,
            KeyCode::End => self.view().scroll = usize::MAX / 2,
            _ => return Next::Nothing,
        }
        Next::Draw
    }

    fn view(&mut self) -> &mut View {
        &mut self.views[self.focus.at()]
    }

    fn scroll_up(&mut self, rows: usize) {
        let view = self.view();
        view.scroll = view.scroll.saturating_sub(rows);
    }

    fn turn_to(&mut self, at: usize) {
        self.focus = Panel::ALL[at];
    }

    fn pause(&mut self) {
        self.is_paused = !self.is_paused;
        if let Some(newest) = self.newest.take() {
            self.update(newest);
        }
    }
}

fn push(history: &mut VecDeque<f64>, value: f64) {
    if history.len() == HISTORY {
        history.pop_front();
    }
    history.push_back(value);
}
