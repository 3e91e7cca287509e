//! The layout of the page.
//!
//! The two curves and one panel fit into 80x24; a larger terminal has room for all panels. A
//! smaller one loses the curves first, then borders, then everything but the first line.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, BorderType, Clear, Paragraph, Sparkline, Wrap};

use super::columns;
use super::style::{age, micros, rate};
use super::table;
use super::{Notice, Page, Panel};
use crate::report::numbers::grouped;
use crate::top::facts::facts;
use crate::top::report::Report;

/// The smallest terminal with all panels at once.
const LARGE: (u16, u16) = (140, 36);
/// The height of the curves with their border, in a small and in a large terminal.
const CURVES: (u16, u16) = (5, 9);
/// The smallest height with curves, and with a border around the panel.
const WITH_CURVES: u16 = 16;
const WITH_BORDER: u16 = 8;
/// The interfaces below the CPUs: those with the most traffic.
const MOST_INTERFACES: usize = 4;

/// Draws the page. Scroll positions are brought within their tables.
pub fn draw(page: &mut Page, frame: &mut Frame<'_>) {
    let area = frame.area();
    let is_large = area.width >= LARGE.0 && area.height >= LARGE.1;
    let curves = match area.height {
        height if height < WITH_CURVES => 0,
        _ if is_large => CURVES.1,
        _ => CURVES.0,
    };
    let keys = u16::from(area.height >= 4);
    let tabs = u16::from(!is_large && area.height >= 3);
    let [title, top, choice, body, bottom] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(curves),
        Constraint::Length(tabs),
        Constraint::Min(0),
        Constraint::Length(keys),
    ])
    .areas(area);
    draw_title(page, frame, title);
    draw_keys(page, frame, bottom);
    let Some(report) = page.report.clone() else {
        frame.render_widget(Paragraph::new("Waiting for the first two samples ..."), body);
        draw_help(page, frame);
        return;
    };
    draw_curves(page, &report, frame, top);
    if is_large {
        draw_all(page, &report, frame, body);
    } else {
        draw_choice(page, frame, choice);
        let has_border = area.height >= WITH_BORDER;
        draw_panel(page, page.focus, &report, frame, body, has_border);
    }
    draw_help(page, frame);
}

fn draw_title(page: &Page, frame: &mut Frame<'_>, area: Rect) {
    let palette = page.palette;
    let mut spans = Vec::new();
    if let Some(report) = &page.report {
        let server = &report.server;
        spans.push(Span::styled(
            format!(" {} {}", server.kind, server.version),
            Style::new().bold(),
        ));
        spans.push(Span::raw(format!("  {}", server.address)));
        spans.push(Span::raw(format!("  {}/s", rate(report.requests.per_second))));
        spans.push(Span::raw(format!("  up {}", age(server.uptime_seconds))));
        spans.push(Span::raw(format!("  {}", report.replication.role)));
        if server.mode != "standalone" {
            spans.push(Span::raw(format!("  {}", server.mode)));
        }
        if !server.is_local {
            spans.push(Span::raw("  remote"));
        }
    } else {
        spans.push(Span::raw(" weft-tune top"));
    }
    if matches!(page.notice, Some(Notice::Problem(_))) {
        spans.push(Span::raw("  NO DATA"));
    }
    if page.is_paused {
        spans.push(Span::raw("  PAUSED"));
    }
    let line = Line::from(spans);
    let room = usize::from(area.width).saturating_sub(line.width());
    frame.render_widget(Paragraph::new(line).style(palette.bar()), area);
    let Some(report) = &page.report else { return };
    let clock = format!("  {} ", clock(report.unix_time_ms));
    let width = u16::try_from(clock.len()).unwrap_or(u16::MAX);
    if room >= clock.len() {
        let right = Rect { x: area.right() - width, width, ..area };
        frame.render_widget(Paragraph::new(clock).style(palette.bar()), right);
    }
}

/// The time of day in UTC, as in the logs of servers that run there.
fn clock(unix_ms: u64) -> String {
    let second = unix_ms / 1000 % 86_400;
    format!("{:02}:{:02}:{:02} UTC", second / 3600, second / 60 % 60, second % 60)
}

fn draw_keys(page: &Page, frame: &mut Frame<'_>, area: Rect) {
    let palette = page.palette;
    let line = match &page.notice {
        Some(Notice::Problem(text)) => Line::styled(format!(" {text}"), palette.problem()),
        Some(Notice::Remark(text)) => Line::styled(format!(" {text}"), palette.warning()),
        None => {
            let keys = [
                ("q", "quit"),
                ("Tab", "panel"),
                ("↑↓", "scroll"),
                ("s", "sort"),
                ("r", "reverse"),
                ("p", "pause"),
                ("?", "help"),
            ];
            let spans = keys.iter().flat_map(|(key, word)| {
                [
                    Span::styled(format!(" {key}"), palette.strong()),
                    Span::styled(format!(" {word} "), palette.dim()),
                ]
            });
            Line::from(spans.collect::<Vec<_>>())
        }
    };
    frame.render_widget(Paragraph::new(line), area);
}

/// The names of the panels, where only one fits.
fn draw_choice(page: &Page, frame: &mut Frame<'_>, area: Rect) {
    let palette = page.palette;
    let spans = Panel::ALL.iter().enumerate().flat_map(|(at, panel)| {
        let style = if *panel == page.focus { palette.bar() } else { palette.dim() };
        [Span::styled(format!(" {} {} ", at + 1, panel.title()), style), Span::raw(" ")]
    });
    frame.render_widget(Paragraph::new(Line::from(spans.collect::<Vec<_>>())), area);
}

fn draw_curves(page: &Page, report: &Report, frame: &mut Frame<'_>, area: Rect) {
    if area.height == 0 {
        return;
    }
    let palette = page.palette;
    let [left, right] = Layout::horizontal([Constraint::Fill(3), Constraint::Fill(2)]).areas(area);
    let most = |history: &std::collections::VecDeque<f64>, width: u16| {
        history.iter().rev().take(usize::from(width)).copied().fold(0.0, f64::max)
    };
    let width = left.width.saturating_sub(2);
    let title = Line::from(vec![
        Span::raw(" Requests "),
        Span::styled(format!("{}/s ", grouped(report.requests.per_second)), palette.strong()),
        Span::styled(format!("max {} ", rate(most(&page.requests, width))), palette.dim()),
    ]);
    let block = boxed(page, false).title(title);
    curve(page, frame, block.inner(left), &page.requests);
    frame.render_widget(block, left);

    let latency = &report.latency;
    let (title, text) = match (latency.p50_us, latency.p99_us, latency.max_us) {
        (Some(p50), Some(p99), Some(max)) => (
            Line::from(vec![
                Span::raw(" PING "),
                Span::styled(format!("{} ", micros(p50)), palette.strong()),
            ]),
            Line::from(format!("p99 {}  max {}", micros(p99), micros(max))),
        ),
        _ => (
            Line::from(" PING "),
            Line::styled(latency.error.clone().unwrap_or_default(), palette.problem()),
        ),
    };
    let block = boxed(page, false).title(title);
    let inner = block.inner(right);
    let [line, below] = Layout::vertical([Constraint::Length(1), Constraint::Min(0)]).areas(inner);
    frame.render_widget(Paragraph::new(text), line);
    curve(page, frame, below, &page.medians);
    frame.render_widget(block, right);
}

/// A curve whose newest value is at the right.
fn curve(
    page: &Page,
    frame: &mut Frame<'_>,
    area: Rect,
    history: &std::collections::VecDeque<f64>,
) {
    let skipped = history.len().saturating_sub(usize::from(area.width));
    // Tenths: medians may be below a microsecond.
    let values: Vec<u64> =
        history.iter().skip(skipped).map(|value| (value * 10.0).round() as u64).collect();
    let pad = u16::try_from(usize::from(area.width) - values.len()).unwrap_or(0);
    let area = Rect { x: area.x + pad, width: area.width - pad, ..area };
    frame.render_widget(Sparkline::default().data(values).style(page.palette.curve()), area);
}

fn boxed(page: &Page, has_focus: bool) -> Block<'static> {
    Block::bordered().border_type(BorderType::Rounded).border_style(page.palette.border(has_focus))
}

/// All panels. CPUs and threads get the left side: they have the widest lines.
fn draw_all(page: &mut Page, report: &Report, frame: &mut Frame<'_>, area: Rect) {
    let [left, right] = Layout::horizontal([Constraint::Fill(11), Constraint::Fill(9)]).areas(area);
    let facts = u16::try_from(facts(report).len()).unwrap_or(u16::MAX) + 2;
    let rows = report.cpus.len() + report.interfaces.len().min(MOST_INTERFACES);
    // Two headings, a blank line and the border.
    let needed = u16::try_from(rows + 5).unwrap_or(u16::MAX).min(left.height / 2);
    let [threads, cpus] =
        Layout::vertical([Constraint::Min(0), Constraint::Length(needed)]).areas(left);
    let [server, commands] =
        Layout::vertical([Constraint::Length(facts), Constraint::Min(4)]).areas(right);
    for (panel, area) in [
        (Panel::Server, server),
        (Panel::Threads, threads),
        (Panel::Cpus, cpus),
        (Panel::Commands, commands),
    ] {
        draw_panel(page, panel, report, frame, area, true);
    }
}

fn draw_panel(
    page: &mut Page,
    panel: Panel,
    report: &Report,
    frame: &mut Frame<'_>,
    area: Rect,
    has_border: bool,
) {
    let mut inner = area;
    if has_border {
        let number = panel.at() + 1;
        let block = boxed(page, panel == page.focus).title(format!(
            " {number} {}{} ",
            panel.title(),
            remark(panel, report)
        ));
        inner = block.inner(area);
        frame.render_widget(block, area);
    }
    let palette = page.palette;
    let view = &mut page.views[panel.at()];
    match panel {
        Panel::Server => draw_facts(page, report, frame, inner),
        Panel::Threads => {
            table::draw(frame, inner, palette, columns::THREADS, &report.threads, view);
        }
        Panel::Commands => {
            table::draw(frame, inner, palette, columns::COMMANDS, &report.commands, view);
        }
        Panel::Cpus => {
            let interfaces = report.interfaces.len().min(MOST_INTERFACES) as u16 + 1;
            // The first rows of CPUs are worth more than interfaces.
            let needed = u16::try_from(report.cpus.len()).unwrap_or(u16::MAX).min(4) + 1;
            let room = inner.height.saturating_sub(needed);
            let [cpus, _, below] = Layout::vertical([
                Constraint::Min(0),
                Constraint::Length(u16::from(room > interfaces)),
                Constraint::Length(interfaces.min(room)),
            ])
            .areas(inner);
            table::draw(frame, cpus, palette, columns::CPUS, &report.cpus, view);
            let mut by_traffic = table::View { sort: 1, ..table::View::default() };
            let rows = &report.interfaces;
            table::draw(frame, below, palette, columns::INTERFACES, rows, &mut by_traffic);
        }
    }
}

/// A panel's title.
fn remark(panel: Panel, report: &Report) -> String {
    let is_local = report.server.is_local;
    match panel {
        Panel::Server if report.server.process_id > 0 => {
            format!(": process {}", report.server.process_id)
        }
        Panel::Threads if !is_local && report.threads.is_empty() => {
            ": only seen on the server's machine".into()
        }
        Panel::Threads if !is_local => ": from INFO, the server is elsewhere".into(),
        Panel::Cpus if !is_local => ": only seen on the server's machine".into(),
        Panel::Threads => format!(": {}", report.threads.len()),
        Panel::Cpus => format!(": {} CPUs", report.cpus.len()),
        Panel::Commands => ": percentiles since the server's start".into(),
        Panel::Server => String::new(),
    }
}

fn draw_facts(page: &mut Page, report: &Report, frame: &mut Frame<'_>, area: Rect) {
    let palette = page.palette;
    let facts = facts(report);
    let view = &mut page.views[Panel::Server.at()];
    view.scroll = view.scroll.min(facts.len().saturating_sub(usize::from(area.height)));
    let scroll = view.scroll;
    let lines = facts.into_iter().map(|fact| {
        let style = if fact.is_problem { palette.problem() } else { Style::new() };
        Line::from(vec![
            Span::styled(format!("{:<9}", fact.name), palette.heading()),
            Span::styled(fact.text, style),
        ])
    });
    let lines: Vec<Line<'_>> = lines.skip(scroll).collect();
    frame.render_widget(Paragraph::new(lines), area);
}

const HELP: &str = "\
q, Esc, Ctrl-C   quit
Tab, ← →, 1-4    choose a panel
↑ ↓ PgUp PgDn    scroll the panel; Home, End
s                sort by the next column
r                reverse the order
p, Space         pause: the page stays, counting continues
?                this help

PING       ten times a second from here, percentiles of a minute
wait %     ready to run, but another thread had the CPU
vol/s      switches per second because the thread waited
invol/s    switches because the kernel took the CPU away
nic/s      interrupts of network interfaces on a CPU
rx/s       soft interrupts for received packets
The page's own PING and INFO are part of the counts.";

fn draw_help(page: &Page, frame: &mut Frame<'_>) {
    if !page.shows_help {
        return;
    }
    let area = frame.area();
    let lines = u16::try_from(HELP.lines().count()).unwrap_or(u16::MAX);
    let (width, height) = (area.width.min(66), area.height.min(lines + 2));
    let place = Rect { x: (area.width - width) / 2, y: (area.height - height) / 2, width, height };
    let block = boxed(page, true).title(" Help ");
    frame.render_widget(Clear, place);
    let text = Paragraph::new(HELP).wrap(Wrap { trim: false });
    frame.render_widget(text.block(block), place);
}
