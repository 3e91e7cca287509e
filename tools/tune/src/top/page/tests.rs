//! The page, drawn into memory: numbers in their cells, in all sizes.

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::style::Color;

use super::*;
use crate::top::tests::{busy, remote};

fn shown() -> Page {
    let mut page = Page::new(Palette::new(true));
    page.update(busy());
    page
}

/// The lines of the page in a terminal of this size.
fn lines(page: &mut Page, width: u16, height: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(page, frame)).unwrap();
    let buffer = terminal.backend().buffer().clone();
    let line = |y: u16| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>();
    (0..height).map(line).collect()
}

/// The words of the first line that contains `text`, from there on.
fn words_after<'a>(lines: &'a [String], text: &str) -> Vec<&'a str> {
    let rest = lines.iter().find_map(|line| line.find(text).map(|at| &line[at + text.len()..]));
    let rest = rest.unwrap_or_else(|| panic!("no {text:?} in\n{}", lines.join("\n")));
    rest.split_whitespace().collect()
}

fn press(page: &mut Page, key: KeyCode) -> Next {
    page.press(KeyEvent::new(key, KeyModifiers::NONE))
}

#[test]
fn small_terminals_show_one_panel() {
    let mut page = shown();
    let server = lines(&mut page, 80, 24);
    assert!(server[0].starts_with(" weft 0.1.0  127.0.0.1:6379  100k/s  up 1m 40s  primary"));
    assert_eq!(words_after(&server, "Requests ")[..3], ["100,000/s", "max", "100k"]);
    assert_eq!(words_after(&server, " PING ")[..2], ["40", "µs"]);
    assert_eq!(words_after(&server, "│p99 ")[..5], ["40", "µs", "max", "40", "µs"]);
    assert_eq!(words_after(&server, "│Keys ")[..4], ["1,001", "in", "2", "databases,"]);
    assert!(!server.iter().any(|line| line.contains("weft-io-1 ")));
    assert!(server[23].starts_with(" q quit"), "{}", server[23]);
    press(&mut page, KeyCode::Tab);
    let threads = lines(&mut page, 80, 24);
    let words = words_after(&threads, "│weft-io-0 ");
    assert_eq!(words[..7], ["95.0", "19.0", "3", "0", "10", "40", "100k"], "{threads:#?}");
    press(&mut page, KeyCode::Char('3'));
    let cpus = lines(&mut page, 80, 24);
    assert_eq!(words_after(&cpus, "│   3     0 ")[..2], ["90.0", "█████████"]);
    assert_eq!(words_after(&cpus, "│eth0 ")[..4], ["977", "KiB", "977", "KiB"]);
    press(&mut page, KeyCode::Char('4'));
    let commands = lines(&mut page, 80, 24);
    assert_eq!(words_after(&commands, "│get ")[..4], ["100k", "1.5", "µs", "100"]);
}

#[test]
fn large_terminals_show_all_panels() {
    let all = lines(&mut shown(), 200, 60);
    for title in ["1 Server: process 77", "2 Threads: 4", "3 CPUs & network: 6 CPUs", "4 Commands"]
    {
        assert!(all.iter().any(|line| line.contains(title)), "{title}\n{}", all.join("\n"));
    }
    // Reads, requests, connections and the thread's id have room.
    let words = words_after(&all, "│weft-io-0 ");
    assert_eq!(words[6..10], ["100k", "100k", "50", "78"][..], "{words:?}");
    assert_eq!(words_after(&all, "│get ")[4..6], ["1.0", "µs"]);
}

#[test]
fn every_size_is_drawn() {
    let mut page = shown();
    for panel in ['1', '2', '3', '4'] {
        press(&mut page, KeyCode::Char(panel));
        for (width, height) in
            (1..160u16).step_by(13).flat_map(|w| (1..45).step_by(2).map(move |h| (w, h)))
        {
            lines(&mut page, width, height);
            press(&mut page, KeyCode::Char('?'));
        }
    }
    let tiny = lines(&mut shown(), 40, 2);
    assert!(tiny[0].starts_with(" weft 0.1.0  127.0.0.1:6379  100k/s"), "{tiny:?}");
    assert!(lines(&mut shown(), 80, 10).iter().all(|line| !line.contains("PING ")), "no curves");
}

#[test]
fn a_remote_server_has_no_threads_and_says_so() {
    let mut page = Page::new(Palette::new(true));
    page.update(remote());
    let all = lines(&mut page, 200, 60);
    assert!(all[0].contains("  remote"), "{}", all[0]);
    assert!(all.iter().any(|line| line.contains("3 CPUs & network: only seen on the server's")));
    assert_eq!(words_after(&all, "│I/O thread 0 ")[..2], ["50.0", "100k"]);
}

#[test]
fn sort_reverse_and_scroll() {
    let mut page = shown();
    press(&mut page, KeyCode::Char('2'));
    let first = |page: &mut Page| {
        let all = lines(page, 80, 24);
        let heading = all.iter().position(|line| line.contains("│thread")).unwrap();
        all[heading + 1].split_whitespace().next().unwrap().trim_start_matches('│').to_string()
    };
    assert_eq!(first(&mut page), "weft-io-0", "the busiest is first");
    press(&mut page, KeyCode::Char('r'));
    assert_ne!(first(&mut page), "weft-io-0");
    assert!(lines(&mut page, 80, 24).iter().any(|line| line.contains("CPU %▴")));
    press(&mut page, KeyCode::Char('r'));
    for _ in 1..columns::THREADS.len() {
        press(&mut page, KeyCode::Char('s'));
    }
    assert_eq!(first(&mut page), "weft-io-0", "by name again");
    press(&mut page, KeyCode::End);
    // Four threads fit, so there is nothing to scroll.
    assert_eq!(first(&mut page), "weft-io-0");
    let low = lines(&mut page, 80, 8);
    assert!(low.iter().any(|line| line.contains("weft-io-1")), "{low:#?}");
    press(&mut page, KeyCode::End);
    let low = lines(&mut page, 80, 8);
    assert!(low.iter().any(|line| line.contains("weft-server")), "{low:#?}");
}

#[test]
fn pause_keeps_the_page_and_continues_with_the_newest() {
    let mut page = shown();
    press(&mut page, KeyCode::Char('p'));
    let mut newer = busy();
    newer.requests.per_second = 7.0;
    page.update(newer);
    let paused = lines(&mut page, 80, 24);
    assert!(paused[0].contains("PAUSED") && paused[0].contains("100k/s"), "{}", paused[0]);
    press(&mut page, KeyCode::Char(' '));
    assert!(lines(&mut page, 80, 24)[0].contains("  7.0/s"));
}

#[test]
fn help_covers_and_leaves() {
    let mut page = shown();
    press(&mut page, KeyCode::Char('?'));
    assert!(lines(&mut page, 80, 24).iter().any(|line| line.contains("q, Esc, Ctrl-C   quit")));
    assert_eq!(press(&mut page, KeyCode::Esc), Next::Draw, "closes the help only");
    assert!(lines(&mut page, 80, 24).iter().all(|line| !line.contains("q, Esc, Ctrl-C")));
    assert_eq!(press(&mut page, KeyCode::Esc), Next::Quit);
    let control = |key| KeyEvent::new(KeyCode::Char(key), KeyModifiers::CONTROL);
    assert_eq!((page.press(control('c')), page.press(control('z'))), (Next::Quit, Next::Suspend));
    assert_eq!(press(&mut page, KeyCode::Char('x')), Next::Nothing);
}

#[test]
fn problems_are_in_the_last_line() {
    let mut page = shown();
    page.notify(Some(Notice::Problem("connection lost; trying again".into())));
    let all = lines(&mut page, 80, 24);
    assert!(all[23].starts_with(" connection lost; trying again"), "{}", all[23]);
    assert!(all[0].contains("  NO DATA"), "{}", all[0]);
    page.notify(None);
    assert!(lines(&mut page, 80, 24)[23].starts_with(" q quit"));
}

#[test]
fn without_colours_no_cell_has_one() {
    let mut page = Page::new(Palette::new(false));
    let mut report = busy();
    report.persistence.last_save_is_ok = false;
    page.update(report);
    page.notify(Some(Notice::Problem("x".into())));
    let mut terminal = Terminal::new(TestBackend::new(200, 60)).unwrap();
    terminal.draw(|frame| draw(&mut page, frame)).unwrap();
    let cells = &terminal.backend().buffer().content;
    assert!(cells.iter().all(|cell| (cell.fg, cell.bg) == (Color::Reset, Color::Reset)));
}

#[test]
fn before_the_first_report_the_page_waits() {
    let mut page = Page::new(Palette::new(true));
    let all = lines(&mut page, 80, 24);
    assert!(all[0].starts_with(" weft-tune top"), "{}", all[0]);
    assert!(all.iter().any(|line| line.contains("Waiting for the first")));
}
