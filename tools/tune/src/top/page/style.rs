//! Colours and numbers of the page.
//!
//! The sixteen colours of the terminal, so that its theme decides what they look like. No fact is
//! shown by colour alone, so the page can do without: NO_COLOR (<https://no-color.org>).

use ratatui::style::{Color, Modifier, Style};

use crate::report::numbers::significant;

/// Shares from which a busy CPU or thread is marked, in percent.
const BUSY: f64 = 70.0;
const FULL: f64 = 90.0;

/// The styles.
#[derive(Clone, Copy, Debug)]
pub struct Palette {
    has_colors: bool,
}

impl Palette {
    /// The styles, with or without colours.
    pub fn new(has_colors: bool) -> Palette {
        Palette { has_colors }
    }

    fn color(self, color: Color) -> Style {
        if self.has_colors { Style::new().fg(color) } else { Style::new() }
    }

    /// Headings of columns, and names of facts.
    pub fn heading(self) -> Style {
        self.color(Color::Cyan)
    }

    /// Curves and bars.
    pub fn curve(self) -> Style {
        self.color(Color::Green)
    }

    /// The most important part of a line.
    pub fn strong(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    /// The least important part.
    pub fn dim(self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    /// A problem.
    pub fn problem(self) -> Style {
        self.color(Color::Red).add_modifier(Modifier::BOLD)
    }

    /// A warning.
    pub fn warning(self) -> Style {
        self.color(Color::Yellow)
    }

    /// The border of a panel.
    pub fn border(self, has_focus: bool) -> Style {
        if has_focus { self.heading().add_modifier(Modifier::BOLD) } else { self.dim() }
    }

    /// A title bar.
    pub fn bar(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    /// A share of a CPU.
    pub fn load(self, percent: f64) -> Style {
        match percent {
            p if p >= FULL => self.problem(),
            p if p >= BUSY => self.warning(),
            p if p < 0.05 => self.dim(),
            _ => Style::new(),
        }
    }
}

/// A rate: 0, 0.5, 12, 123, 45.6k, 1.23M.
pub fn rate(value: f64) -> String {
    match value {
        v if v < 0.05 => "0".into(),
        v if v < 9.95 => format!("{v:.1}"),
        v if v < 9_999.5 => format!("{v:.0}"),
        v if v < 999_500.0 => format!("{}k", significant(v / 1e3)),
        v => format!("{}M", significant(v / 1e6)),
    }
}

/// A share: 7.5, 100.
pub fn percent(value: f64) -> String {
    if value < 99.95 { format!("{value:.1}") } else { "100".into() }
}

/// Microseconds, as in `41 µs`, `1.23 ms`, `2.0 s`.
pub fn micros(value: f64) -> String {
    match value {
        v if v < 9.95 => format!("{v:.1} µs"),
        v if v < 999.5 => format!("{v:.0} µs"),
        v if v < 999_500.0 => format!("{} ms", significant(v / 1e3)),
        v => format!("{:.1} s", v / 1e6),
    }
}

/// Bytes, as in `17 B`, `4.0 MiB`.
pub fn bytes(value: f64) -> String {
    let mut value = value;
    for unit in ["B", "KiB", "MiB", "GiB"] {
        if value < 1023.5 {
            let decimals = usize::from(unit != "B" && value < 99.95);
            return format!("{value:.decimals$} {unit}");
        }
        value /= 1024.0;
    }
    format!("{value:.1} TiB")
}

/// The two largest units of a time: `3d 4h`, `5m 07s`.
pub fn age(seconds: u64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match seconds {
        s if s < 60 => format!("{s}s"),
        s if s < 3600 => format!("{minutes}m {:02}s", s % 60),
        s if s < 86_400 => format!("{hours}h {:02}m", minutes % 60),
        _ => format!("{days}d {:02}h", hours % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        let rates: Vec<String> = [0.0, 0.52, 12.3, 9_999.0, 45_600.0, 1_234_567.0].map(rate).into();
        assert_eq!(rates, ["0", "0.5", "12", "9999", "45.6k", "1.23M"]);
        assert_eq!([7.46, 99.94, 99.96].map(percent), ["7.5", "99.9", "100"]);
        let times = [4.0, 41.2, 1_234.0, 2_000_000.0].map(micros);
        assert_eq!(times, ["4.0 µs", "41 µs", "1.23 ms", "2.0 s"]);
        let sizes = [17.0, 2048.0, 4.04 * 1_048_576.0, 200.0 * 1_048_576.0].map(bytes);
        assert_eq!(sizes, ["17 B", "2.0 KiB", "4.0 MiB", "200 MiB"]);
        assert_eq!([5, 307, 7_260, 100_000].map(age), ["5s", "5m 07s", "2h 01m", "1d 03h"]);
    }

    #[test]
    fn without_colours_there_are_none() {
        let palette = Palette::new(false);
        for style in [palette.heading(), palette.problem(), palette.load(95.0), palette.curve()] {
            assert_eq!((style.fg, style.bg), (None, None));
        }
        assert!(Palette::new(true).problem().fg.is_some());
    }
}
