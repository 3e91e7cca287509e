//! Numbers for people, with no more digits than a measurement has.
//!
//! Runs of a benchmark differ by a percent or more, so three digits suffice. The CSV and JSON of a
//! report have all digits.

/// Three significant digits: 176, 64.5, 1.15, 0.634.
pub fn significant(value: f64) -> String {
    let decimals = match value.abs() {
        v if v >= 99.95 => 0,
        v if v >= 9.995 => 1,
        v if v >= 0.9995 => 2,
        _ => 3,
    };
    format!("{value:.decimals$}")
}

/// The same with letters for thousands and millions: 177k, 1.23M.
pub fn compact(value: f64) -> String {
    let (scaled, unit) = scaled(value);
    format!("{}{unit}", significant(scaled))
}

/// Two numbers as a range, with their common unit once: `168–172k`.
pub fn range(low: f64, high: f64) -> String {
    let ((_, low_unit), (_, high_unit)) = (scaled(low), scaled(high));
    let text = compact(low);
    let text = match low_unit == high_unit {
        true => text.strip_suffix(low_unit).unwrap_or(&text).to_string(),
        false => text,
    };
    format!("{text}–{}", compact(high))
}

/// Two digits, for an estimate: 340k, 1.2M.
pub fn rough(value: f64) -> String {
    if value.abs() < 10.0 {
        return format!("{value:.1}");
    }
    let power = 10f64.powf(value.abs().log10().floor() - 1.0);
    let (scaled, unit) = scaled((value / power).round() * power);
    let text = significant(scaled);
    let text =
        if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text}{unit}")
}

fn scaled(value: f64) -> (f64, &'static str) {
    match value.abs() {
        v if v >= 999_500.0 => (value / 1e6, "M"),
        v if v >= 999.5 => (value / 1e3, "k"),
        _ => (value, ""),
    }
}

/// A whole number with separated thousands.
pub fn grouped(value: f64) -> String {
    let whole = format!("{:.0}", value.abs());
    let mut out = String::new();
    for (i, digit) in whole.chars().enumerate() {
        if i > 0 && (whole.len() - i) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    let sign = if value < 0.0 && whole != "0" { "-" } else { "" };
    format!("{sign}{out}")
}

/// Memory in GiB, as in `15.6 GiB`; smaller amounts in MiB.
pub fn memory(bytes: u64) -> String {
    const GIB: f64 = (1u64 << 30) as f64;
    match bytes as f64 / GIB {
        gib if gib >= 1.0 => format!("{gib:.1} GiB"),
        gib => format!("{:.0} MiB", gib * 1024.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_are_enough() {
        for (value, text) in [
            (176_537.07, "177k"),
            (64_521.81, "64.5k"),
            (1_234_567.0, "1.23M"),
            (999_600.0, "1.00M"),
            (999.4, "999"),
            (12.34, "12.3"),
            (0.0634, "0.063"),
            (0.0, "0.000"),
        ] {
            assert_eq!(compact(value), text);
        }
        assert_eq!(
            (range(168_000.0, 172_400.0), range(990.0, 1010.0)),
            ("168–172k".into(), "990–1.01k".into())
        );
        assert_eq!(
            (rough(342_123.0), rough(1_234_567.0), rough(98_765.0)),
            ("340k".into(), "1.2M".into(), "99k".into())
        );
        assert_eq!(rough(1_000_000.0), "1M");
    }

    #[test]
    fn whole_numbers_are_grouped() {
        for (value, text) in [
            (0.0, "0"),
            (999.6, "1,000"),
            (1234.5, "1,234"),
            (-1_234_567.0, "-1,234,567"),
            (-0.2, "0"),
        ] {
            assert_eq!(grouped(value), text);
        }
    }

    #[test]
    fn memory_has_one_unit_for_all() {
        assert_eq!((memory(16 << 30), memory(512 << 20)), ("16.0 GiB".into(), "512 MiB".into()));
    }
}
