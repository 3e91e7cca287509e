//! One line of the log: pure functions from its parts to its text.

use super::{Format, Level, Role, Timestamp};
use std::borrow::Cow;
use std::time::Duration;

/// A point in local time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LocalTime {
    year: i32,
    /// 0 is January.
    month: usize,
    day: i32,
    hour: i32,
    minute: i32,
    second: i32,
    /// Seconds east of Greenwich.
    offset: i64,
}

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// The local time of a moment, by the machine's time zone.
pub(super) fn local_time(unix_seconds: i64) -> LocalTime {
    // SAFETY: all-zero is a valid `tm`.
    let mut tm: libc::tm = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are valid for the call; localtime_r keeps neither.
    unsafe { libc::localtime_r(&raw const unix_seconds, &raw mut tm) };
    LocalTime {
        year: tm.tm_year + 1900,
        month: usize::try_from(tm.tm_mon).unwrap_or(0).min(11),
        day: tm.tm_mday,
        hour: tm.tm_hour,
        minute: tm.tm_min,
        second: tm.tm_sec,
        offset: tm.tm_gmtoff,
    }
}

/// A moment, given since the Unix epoch, in the wanted format.
pub(super) fn time(
    format: Timestamp,
    now: Duration,
    local: impl FnOnce(i64) -> LocalTime,
) -> String {
    if format == Timestamp::Milliseconds {
        return now.as_millis().to_string();
    }
    let t = local(i64::try_from(now.as_secs()).unwrap_or(i64::MAX));
    let (hour, minute, second, milli) = (t.hour, t.minute, t.second, now.subsec_millis());
    let clock = format!("{hour:02}:{minute:02}:{second:02}.{milli:03}");
    match format {
        Timestamp::Legacy => format!("{:02} {} {} {clock}", t.day, MONTHS[t.month], t.year),
        Timestamp::Iso8601 | Timestamp::Milliseconds => {
            let sign = if t.offset < 0 { '-' } else { '+' };
            let minutes = t.offset.abs() / 60;
            let (hours, minutes) = (minutes / 60, minutes % 60);
            let (year, month, day) = (t.year, t.month + 1, t.day);
            format!("{year}-{month:02}-{day:02}T{clock}{sign}{hours:02}:{minutes:02}")
        }
    }
}

/// A whole line with its line break.
pub(super) fn line(
    format: Format,
    pid: i32,
    role: Role,
    time: &str,
    level: Level,
    message: &str,
) -> String {
    match format {
        Format::Legacy => {
            let role = match role {
                Role::Primary => 'M',
                Role::Replica => 'S',
                Role::Child => 'C',
                Role::Sentinel => 'X',
            };
            let mark = match level {
                Level::Debug => '.',
                Level::Verbose => '-',
                Level::Notice => '*',
                Level::Warning | Level::Nothing => '#',
            };
            let message = without(message, &[]);
            format!("{pid}:{role} {time} {mark} {message}\n")
        }
        Format::Json => {
            let (role, level, message) = (role_name(role), level.name(), escaped(message));
            format!(
                "{{\"pid\":{pid},\"role\":\"{role}\",\"timestamp\":\"{time}\",\
                 \"level\":\"{level}\",\"message\":\"{message}\"}}\n"
            )
        }
        Format::Logfmt => {
            let role = role_name(role);
            let (level, message) = (level.name(), without(message, &['"']));
            format!(
                "pid={pid} role={role} timestamp=\"{time}\" level={level} message=\"{message}\"\n"
            )
        }
    }
}

fn role_name(role: Role) -> &'static str {
    match role {
        Role::Primary => "primary",
        Role::Replica => "replica",
        Role::Child => "RDB/AOF",
        Role::Sentinel => "sentinel",
    }
}

/// The message in the form of a JSON string.
fn escaped(message: &str) -> String {
    let mut out = String::with_capacity(message.len());
    for c in message.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            c if u32::from(c) < 0x20 => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out
}

/// The message with line breaks as blanks and `quotes` as single quotes.
fn without<'a>(message: &'a str, quotes: &[char]) -> Cow<'a, str> {
    const BREAKS: [char; 2] = ['\n', '\r'];
    if !message.contains(BREAKS) && !message.contains(quotes) {
        return Cow::Borrowed(message);
    }
    Cow::Owned(message.replace(BREAKS, " ").replace(quotes, "'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_millis(1_795_224_327_058);

    fn at_offset(offset: i64) -> impl Fn(i64) -> LocalTime {
        move |_| LocalTime { year: 2026, month: 10, day: 1, hour: 1, minute: 25, second: 7, offset }
    }

    #[test]
    fn times() {
        assert_eq!(time(Timestamp::Legacy, NOW, at_offset(0)), "01 Nov 2026 01:25:07.058");
        assert_eq!(time(Timestamp::Milliseconds, NOW, at_offset(0)), "1795224327058");
        for (offset, shown) in [(0, "+00:00"), (19_800, "+05:30"), (-12_600, "-03:30")] {
            let expected = format!("2026-11-01T01:25:07.058{shown}");
            assert_eq!(time(Timestamp::Iso8601, NOW, at_offset(offset)), expected);
        }
    }

    /// Whatever the time zone of the machine, its offset leads back to the moment.
    #[test]
    fn local_time_is_consistent_with_its_offset() {
        for moment in [0, 951_782_400, 1_795_224_327] {
            let t = local_time(moment);
            let second_of_day = i64::from(t.hour * 3600 + t.minute * 60 + t.second);
            assert_eq!((second_of_day - t.offset).rem_euclid(86_400), moment % 86_400);
        }
        assert_eq!(local_time(1_795_224_327).year, 2026);
    }

    #[test]
    fn lines() {
        let legacy = |role, level| line(Format::Legacy, 7, role, "NOW", level, "hi \"x\"");
        assert_eq!(legacy(Role::Primary, Level::Debug), "7:M NOW . hi \"x\"\n");
        assert_eq!(legacy(Role::Replica, Level::Verbose), "7:S NOW - hi \"x\"\n");
        assert_eq!(legacy(Role::Child, Level::Notice), "7:C NOW * hi \"x\"\n");
        assert_eq!(legacy(Role::Sentinel, Level::Warning), "7:X NOW # hi \"x\"\n");
        let logfmt = |role, message| line(Format::Logfmt, 7, role, "NOW", Level::Notice, message);
        assert_eq!(
            logfmt(Role::Child, "a \"b\" \\ = c\n\r\t"),
            "pid=7 role=RDB/AOF timestamp=\"NOW\" level=notice message=\"a 'b' \\ = c  \t\"\n"
        );
        for (role, name) in
            [(Role::Primary, "primary"), (Role::Replica, "replica"), (Role::Sentinel, "sentinel")]
        {
            assert!(logfmt(role, "").contains(&format!("role={name} ")));
        }
    }

    #[test]
    fn json() {
        let json = |message| line(Format::Json, 7, Role::Primary, "NOW", Level::Warning, message);
        assert_eq!(
            json("a \"b\" \\ c\n\r\t\u{1}\u{8}\u{c} é"),
            "{\"pid\":7,\"role\":\"primary\",\"timestamp\":\"NOW\",\"level\":\"warning\",\
             \"message\":\"a \\\"b\\\" \\\\ c\\n\\r\\t\\u0001\\b\\f é\"}\n"
        );
        assert_eq!(json("a\n8:M fake").lines().count(), 1);
    }

    #[test]
    fn messages_cannot_forge_lines() {
        let forged = line(Format::Legacy, 7, Role::Primary, "NOW", Level::Notice, "a\n8:M fake\r");
        assert_eq!(forged, "7:M NOW * a 8:M fake \n");
    }
}
