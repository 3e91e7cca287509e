//! Small charts as SVG, in the page itself.
//!
//! Many small charts of one command each are legible where one large chart of nine commands is not:
//! on a phone they form a column, at a desk side by side, on paper they keep together. Each is
//! drawn for 360 units of width, so a phone shows its text nearly at full size. Series differ by
//! shape, dashes and a letter at the end of the line, colours come on top (those of Okabe and Ito,
//! which differ for colour-blind eyes as well). Every mark has a tooltip; the tables next to the
//! charts hold the same numbers.
//!
//! No charting library is used: they place legends instead of labels at line ends, have no shapes
//! for the marked runs, and draw for one fixed width.

use maud::{Markup, html};

const WIDTH: f64 = 360.0;
const HEIGHT: f64 = 236.0;
const LEFT: f64 = 46.0;
const RIGHT: f64 = 24.0;
const TOP: f64 = 24.0;
const BOTTOM: f64 = 36.0;
/// The smallest distance of two labels.
const LABEL: f64 = 13.0;

const COLOURS: [&str; 8] =
    ["#0072b2", "#d55e00", "#007a5a", "#a3457f", "#5b5b00", "#222222", "#2b8cc4", "#8a4b00"];
const DASHES: [&str; 4] = ["", "7 3", "2 3", "9 3 2 3"];

/// A chart.
#[derive(Debug, Default)]
pub struct Chart {
    /// Text above it.
    pub title: String,
    /// Text below the horizontal axis.
    pub x_name: String,
    /// The unit of the vertical axis, written above it.
    pub y_name: String,
    /// Places on the horizontal axis with their text.
    pub x_ticks: Vec<(f64, String)>,
    /// Whether the vertical axis begins at 0.
    pub from_zero: bool,
    /// A horizontal line to compare with.
    pub reference: Option<f64>,
    /// The drawn lines.
    pub lines: Vec<Line>,
}

/// One series.
#[derive(Debug)]
pub struct Line {
    /// Which style and letter.
    pub style: usize,
    /// For screen readers.
    pub name: String,
    /// Whether neighbours are joined.
    pub joined: bool,
    /// From left to right.
    pub dots: Vec<Dot>,
}

/// One mark.
#[derive(Clone, Debug, Default)]
pub struct Dot {
    /// Horizontal value.
    pub x: f64,
    /// Vertical value.
    pub y: f64,
    /// From the lowest run to the highest.
    pub band: Option<(f64, f64)>,
    /// Text of the tooltip.
    pub text: String,
    /// Drawn with a ring.
    pub outlier: bool,
    /// Drawn hollow.
    pub limited: bool,
    /// Drawn small.
    pub small: bool,
}

/// The letter of a style.
pub fn letter(style: usize) -> String {
    let letters = (b'A' + (style % 26) as u8) as char;
    if style < 26 { letters.to_string() } else { format!("{letters}{}", style / 26) }
}

/// A mark of this style with its letter, for legends.
pub fn key(style: usize) -> Markup {
    let colour = COLOURS[style % COLOURS.len()];
    html! {
        svg class="key" viewBox="0 0 46 16" width="46" height="16" aria-hidden="true" {
            line x1="0" y1="8" x2="28" y2="8" stroke=(colour) stroke-width="2"
                stroke-dasharray=(DASHES[style % DASHES.len()]) {}
            (mark(style, 14.0, 8.0, 4.5, false))
            text x="33" y="12.5" fill=(colour) font-weight="bold" font-size="13" { (letter(style)) }
        }
    }
}

/// Maps values to coordinates.
struct Scale {
    x: (f64, f64),
    y: (f64, f64),
    y_ticks: Vec<f64>,
}

impl Scale {
    fn of(chart: &Chart) -> Option<Self> {
        let dots = || chart.lines.iter().flat_map(|line| &line.dots);
        let bands = || dots().filter_map(|dot| dot.band).flat_map(|(low, high)| [low, high]);
        let ys = || dots().map(|dot| dot.y).chain(bands()).chain(chart.reference);
        let (low, high) = (ys().reduce(f64::min)?, ys().reduce(f64::max)?);
        let low = if chart.from_zero { 0.0 } else { low };
        let (y, y_ticks) = nice(low, high);
        let xs = || dots().map(|dot| dot.x).chain(chart.x_ticks.iter().map(|tick| tick.0));
        let (left, right) = (xs().reduce(f64::min)?, xs().reduce(f64::max)?);
        let x = if right > left { (left, right) } else { (left - 0.5, right + 0.5) };
        Some(Self { x, y, y_ticks })
    }

    fn x(&self, value: f64) -> f64 {
        let share = (value - self.x.0) / (self.x.1 - self.x.0);
        // A margin, so that marks at the edges are complete.
        LEFT + 8.0 + share * (WIDTH - LEFT - RIGHT - 16.0)
    }

    fn y(&self, value: f64) -> f64 {
        let share = (value - self.y.0) / (self.y.1 - self.y.0);
        HEIGHT - BOTTOM - share * (HEIGHT - BOTTOM - TOP)
    }
}

/// A range that contains both and begins and ends at ticks, and the ticks.
fn nice(low: f64, high: f64) -> ((f64, f64), Vec<f64>) {
    let (low, high) = if high > low { (low, high) } else { (low - 1.0, high + 1.0) };
    let rough = (high - low) / 4.0;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 2.5, 5.0, 10.0].iter().map(|m| m * power).find(|s| *s >= rough * 0.999);
    let step = step.unwrap_or(10.0 * power);
    let (first, last) = ((low / step).floor() as i64, (high / step - 1e-9).ceil() as i64);
    let ticks: Vec<f64> = (first..=last).map(|i| i as f64 * step).collect();
    ((first as f64 * step, last as f64 * step), ticks)
}

/// A number on an axis.
pub fn tick(value: f64) -> String {
    let (scaled, unit) = match value.abs() {
        v if v >= 1e6 => (value / 1e6, "M"),
        v if v >= 1e4 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let text = format!("{scaled:.4}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    format!("{text}{unit}")
}

/// The chart; or a remark if there is nothing to draw.
pub fn draw(chart: &Chart) -> Markup {
    let Some(scale) = Scale::of(chart) else {
        return html! { figure { figcaption { (chart.title) } p { "nothing measured" } } };
    };
    html! {
        figure {
            figcaption { (chart.title) }
            svg viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) role="img"
                aria-label=(format!("{}: {} by {}", chart.title, chart.y_name, chart.x_name)) {
                (axes(chart, &scale))
                @for line in &chart.lines { (band(line, &scale)) }
                @for line in &chart.lines { (path(line, &scale)) }
                @for line in &chart.lines { g aria-label=(line.name) { (marks(line, &scale)) } }
                (labels(chart, &scale))
            }
        }
    }
}

fn axes(chart: &Chart, scale: &Scale) -> Markup {
    let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
    html! {
        @for &value in &scale.y_ticks {
            line class="grid" x1=(LEFT) x2=(right) y1=(at(scale.y(value))) y2=(at(scale.y(value))) {}
            text x=(LEFT - 5.0) y=(at(scale.y(value) + 4.0)) text-anchor="end" { (tick(value)) }
        }
        @if let Some(value) = chart.reference {
            line class="reference" x1=(LEFT) x2=(right)
                y1=(at(scale.y(value))) y2=(at(scale.y(value))) {}
        }
        line class="axis" x1=(LEFT) x2=(right) y1=(bottom) y2=(bottom) {}
        @for (value, name) in &chart.x_ticks {
            line class="axis" x1=(at(scale.x(*value))) x2=(at(scale.x(*value)))
                y1=(bottom) y2=(bottom + 4.0) {}
            text x=(at(scale.x(*value))) y=(bottom + 16.0) text-anchor="middle" { (name) }
        }
        text x=(at((LEFT + right) / 2.0)) y=(HEIGHT - 5.0) text-anchor="middle" { (chart.x_name) }
        text x="2" y="11" { (chart.y_name) (if scale.y.0 > 0.0 { " (axis not from 0)" } else { "" }) }
    }
}

/// The range between the lowest and the highest runs: an area along a line, a bar at a single mark.
fn band(line: &Line, scale: &Scale) -> Markup {
    let colour = COLOURS[line.style % COLOURS.len()];
    let edge = |dot: &Dot, y: f64| format!("{},{}", at(scale.x(dot.x)), at(scale.y(y)));
    let banded: Vec<(&Dot, (f64, f64))> =
        line.dots.iter().filter_map(|dot| Some((dot, dot.band?))).collect();
    let above = banded.iter().map(|(dot, band)| edge(dot, band.1));
    let below = banded.iter().rev().map(|(dot, band)| edge(dot, band.0));
    let points: Vec<String> = above.chain(below).collect();
    html! {
        @if line.joined && banded.len() > 1 {
            polygon points=(points.join(" ")) fill=(colour) fill-opacity="0.16" stroke="none" {}
        } @else {
            @for (dot, (low, high)) in banded {
                line x1=(at(scale.x(dot.x))) x2=(at(scale.x(dot.x))) y1=(at(scale.y(low)))
                    y2=(at(scale.y(high))) stroke=(colour) stroke-width="5" stroke-opacity="0.3" {}
            }
        }
    }
}

fn path(line: &Line, scale: &Scale) -> Markup {
    let points: Vec<String> = line
        .dots
        .iter()
        .map(|dot| format!("{},{}", at(scale.x(dot.x)), at(scale.y(dot.y))))
        .collect();
    html! {
        @if line.joined && points.len() > 1 {
            polyline points=(points.join(" ")) fill="none" stroke-width="1.8"
                stroke=(COLOURS[line.style % COLOURS.len()])
                stroke-dasharray=(DASHES[line.style % DASHES.len()]) {}
        }
    }
}

fn marks(line: &Line, scale: &Scale) -> Markup {
    html! {
        @for dot in &line.dots {
            g {
                title { (dot.text) }
                @let (x, y) = (scale.x(dot.x), scale.y(dot.y));
                (mark(line.style, x, y, if dot.small { 2.6 } else { 4.2 }, dot.limited))
                @if dot.outlier {
                    circle class="outlier" cx=(at(x)) cy=(at(y)) r="7" {}
                }
            }
        }
    }
}

/// The shape of a style around a point.
fn mark(style: usize, x: f64, y: f64, r: f64, hollow: bool) -> Markup {
    let colour = COLOURS[style % COLOURS.len()];
    let fill = if hollow { "#fff" } else { colour };
    let shape: &[(f64, f64)] = match style % 7 {
        0 => &[],
        1 => &[(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)],
        2 => &[(0.0, -1.2), (1.1, 0.9), (-1.1, 0.9)],
        3 => &[(0.0, -1.3), (1.3, 0.0), (0.0, 1.3), (-1.3, 0.0)],
        4 => &[(0.0, 1.2), (1.1, -0.9), (-1.1, -0.9)],
        5 => &[
            (-0.4, -1.2),
            (0.4, -1.2),
            (0.4, -0.4),
            (1.2, -0.4),
            (1.2, 0.4),
            (0.4, 0.4),
            (0.4, 1.2),
            (-0.4, 1.2),
            (-0.4, 0.4),
            (-1.2, 0.4),
            (-1.2, -0.4),
            (-0.4, -0.4),
        ],
        _ => &[(-1.2, -0.5), (0.0, -1.2), (1.2, -0.5), (0.8, 1.0), (-0.8, 1.0)],
    };
    let points: Vec<String> =
        shape.iter().map(|(dx, dy)| format!("{},{}", at(x + dx * r), at(y + dy * r))).collect();
    html! {
        @if shape.is_empty() {
            circle cx=(at(x)) cy=(at(y)) r=(at(r)) fill=(fill) stroke=(colour) stroke-width="1.5" {}
        } @else {
            polygon points=(points.join(" ")) fill=(fill) stroke=(colour) stroke-width="1.5" {}
        }
    }
}

/// The letters at the right ends of joined lines, moved apart if they would touch.
fn labels(chart: &Chart, scale: &Scale) -> Markup {
    let ends = chart.lines.iter().filter(|line| line.joined);
    let mut ends: Vec<(f64, f64, usize)> = ends
        .filter_map(|line| {
            let last = line.dots.last()?;
            Some((scale.x(last.x), scale.y(last.y), line.style))
        })
        .collect();
    ends.sort_by(|a, b| a.1.total_cmp(&b.1));
    let places = apart(&ends.iter().map(|end| end.1).collect::<Vec<f64>>());
    html! {
        @if ends.len() > 1 {
            @for ((x, _, style), y) in ends.iter().zip(places) {
                text x=(at(x + 9.0)) y=(at(y + 4.5)) font-weight="bold" font-size="13"
                    fill=(COLOURS[style % COLOURS.len()]) { (letter(*style)) }
            }
        }
    }
}

/// Ascending heights, moved as little as possible, so that neighbours are at least a label apart
/// and none leaves the chart.
fn apart(heights: &[f64]) -> Vec<f64> {
    let mut placed: Vec<f64> = Vec::with_capacity(heights.len());
    for &height in heights {
        let least = placed.last().map_or(TOP, |last| last + LABEL);
        placed.push(height.max(least));
    }
    let mut most = HEIGHT - BOTTOM;
    for height in placed.iter_mut().rev() {
        *height = height.min(most);
        most = *height - LABEL;
    }
    placed
}

/// A coordinate; a tenth of a unit is finer than any screen.
fn at(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map(String::from).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn axes_begin_and_end_at_round_numbers() {
        assert_eq!(nice(0.0, 190_439.0), ((0.0, 200_000.0), vec![0.0, 5e4, 1e5, 1.5e5, 2e5]));
        assert_eq!(nice(0.0, 1.0).1, [0.0, 0.25, 0.5, 0.75, 1.0]);
        let ((low, high), ticks) = nice(5.0, 5.0);
        assert!(low < 5.0 && high > 5.0 && ticks.len() > 2);
        assert_eq!(
            (tick(150_000.0), tick(2.5e6), tick(0.25)),
            ("150k".into(), "2.5M".into(), "0.25".into())
        );
        assert_eq!((tick(0.0), tick(-20.0), tick(100.0)), ("0".into(), "-20".into(), "100".into()));
    }

    #[test]
    fn every_series_looks_different() {
        let looks: std::collections::HashSet<String> =
            (0..52).map(|style| key(style).into_string()).collect();
        assert_eq!(looks.len(), 52);
    }

    #[test]
    fn empty_chart_has_a_remark() {
        assert!(draw(&Chart::default()).into_string().contains("nothing measured"));
    }

    #[test]
    fn names_are_escaped() {
        let dot = Dot { text: "<script>".into(), ..Dot::default() };
        let line = Line { style: 0, name: "n".into(), joined: true, dots: vec![dot] };
        let chart = Chart { title: "a < b".into(), lines: vec![line], ..Chart::default() };
        let text = draw(&chart).into_string();
        assert!(text.contains("a &lt; b") && !text.contains("<script>"), "{text}");
    }

    #[test]
    fn the_axis_says_when_it_does_not_begin_at_zero() {
        let page = |from_zero, values: [f64; 2]| {
            let dots = values.map(|y| Dot { x: y, y, ..Dot::default() }).to_vec();
            let lines = vec![Line { style: 0, name: "n".into(), joined: true, dots }];
            let y_name = "requests per second".to_string();
            draw(&Chart { from_zero, lines, y_name, ..Chart::default() }).into_string()
        };
        assert!(page(true, [90.0, 100.0]).contains(">requests per second</text>"));
        assert!(page(false, [90.0, 100.0]).contains("per second (axis not from 0)</text>"));
        // It may still begin there.
        assert!(page(false, [1.0, 100.0]).contains(">requests per second</text>"));
    }

    proptest! {
        #[test]
        fn ranges_contain_their_values(low in -1e9..1e9f64, more in 0.001..1e9f64) {
            let ((bottom, top), ticks) = nice(low, low + more);
            prop_assert!(bottom <= low + 1e-6 * more && top >= low + more * (1.0 - 1e-6));
            prop_assert!((3..=8).contains(&ticks.len()), "{:?}", ticks);
        }

        #[test]
        fn labels_do_not_touch(mut heights in prop::collection::vec(TOP..HEIGHT - BOTTOM, 1..13)) {
            heights.sort_by(f64::total_cmp);
            let placed = apart(&heights);
            prop_assert!(placed.windows(2).all(|pair| pair[1] - pair[0] >= LABEL - 1e-9));
            prop_assert!(placed[placed.len() - 1] <= HEIGHT - BOTTOM);
        }
    }
}
