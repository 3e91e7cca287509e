//! Directives whose values are more than one number, word or string.

use crate::kind::Reason;
use crate::numbers::{format_memory, integer, memory};
use crate::value::{OutputBufferLimit, OutputBufferLimits, Primary, SavePoint, Value};

/// The save points of `seconds changes [seconds changes ...]`; none for `""`.
pub(crate) fn parse_save_points(arguments: &[Vec<u8>]) -> Result<Vec<SavePoint>, Reason> {
    if let [only] = arguments
        && only.is_empty()
    {
        return Ok(Vec::new());
    }
    let (pairs, rest) = arguments.as_chunks::<2>();
    if !rest.is_empty() {
        return Err("Invalid save parameters".into());
    }
    let point = |[seconds, changes]: &[Vec<u8>; 2]| {
        let seconds = integer(seconds).filter(|seconds| *seconds >= 1)?;
        let changes = integer(changes).filter(|changes| *changes >= 0)?;
        Some(SavePoint { seconds, changes: i32::try_from(changes).ok()? })
    };
    let points: Option<Vec<_>> = pairs.iter().map(point).collect();
    points.ok_or_else(|| "Invalid save parameters".into())
}

/// The points as [`parse_save_points`] reads them; empty for none.
pub(crate) fn format_save_points(points: &[SavePoint]) -> String {
    let pairs = points.iter().map(|point| format!("{} {}", point.seconds, point.changes));
    pairs.collect::<Vec<_>>().join(" ")
}

/// The reference keeps them in 32 bits.
const SOFT_SECONDS: std::ops::RangeInclusive<i64> = 0..=i32::MAX as i64;

/// The limits in `before` with those of the classes named replaced. Nothing
/// changes when one group is wrong.
pub(crate) fn parse_limits(arguments: &[Vec<u8>], before: &Value) -> Result<Value, Reason> {
    let mut limits = match before {
        Value::OutputBufferLimits(limits) => *limits,
        _ => OutputBufferLimits {
            normal: OutputBufferLimit::default(),
            replica: OutputBufferLimit::default(),
            pubsub: OutputBufferLimit::default(),
        },
    };
    let empty = matches!(arguments, [only] if only.is_empty());
    let (groups, rest) = arguments.as_chunks::<4>();
    if !rest.is_empty() && !empty {
        return Err("Wrong number of arguments in buffer limit configuration.".into());
    }
    for [class, hard, soft, seconds] in groups {
        let place = match limit_class(class) {
            Some("normal") => &mut limits.normal,
            Some("replica") => &mut limits.replica,
            Some(_) => &mut limits.pubsub,
            None => {
                let reason = "Invalid client class specified in buffer limit configuration.";
                return Err(reason.into());
            }
        };
        let parsed = || {
            Some(OutputBufferLimit {
                hard: memory(hard)?,
                soft: memory(soft)?,
                soft_seconds: integer(seconds).filter(|s| SOFT_SECONDS.contains(s))?,
            })
        };
        *place = parsed()
            .ok_or("Error in hard, soft or soft_seconds setting in buffer limit configuration.")?;
    }
    Ok(Value::OutputBufferLimits(limits))
}

/// The class that `name` means: `normal`, `replica` or `pubsub`.
pub(crate) fn limit_class(name: &[u8]) -> Option<&'static str> {
    match name.to_ascii_lowercase().as_slice() {
        b"normal" => Some("normal"),
        b"replica" | b"slave" => Some("replica"),
        b"pubsub" => Some("pubsub"),
        _ => None,
    }
}

/// The limits as CONFIG GET answers them: bytes as plain numbers, and replicas
/// by their older name.
pub(crate) fn answer_limits(limits: &OutputBufferLimits) -> String {
    let one = |class: &str, limit: &OutputBufferLimit| {
        format!("{class} {} {} {}", limit.hard, limit.soft, limit.soft_seconds)
    };
    [one("normal", &limits.normal), one("slave", &limits.replica), one("pubsub", &limits.pubsub)]
        .join(" ")
}

/// The limits as lines of a file, one for each class.
pub(crate) fn lines_of_limits(limits: &OutputBufferLimits) -> Vec<Vec<u8>> {
    let line = |class: &str, limit: &OutputBufferLimit| {
        let (hard, soft) = (format_memory(limit.hard), format_memory(limit.soft));
        format!("{class} {hard} {soft} {}", limit.soft_seconds).into_bytes()
    };
    vec![
        line("normal", &limits.normal),
        line("replica", &limits.replica),
        line("pubsub", &limits.pubsub),
    ]
}

/// Three OOM score adjustments.
pub(crate) fn parse_oom_scores(arguments: &[Vec<u8>]) -> Result<Value, Reason> {
    let Ok(words) = <&[Vec<u8>; 3]>::try_from(arguments) else {
        return Err("wrong number of arguments".into());
    };
    let mut scores = [0; 3];
    for (score, word) in scores.iter_mut().zip(words) {
        *score = match integer(word) {
            Some(number @ -2000..=2000) => number as i32,
            _ => {
                let reason =
                    "Invalid oom-score-adj-values, elements must be between -2000 and 2000.";
                return Err(reason.into());
            }
        };
    }
    Ok(Value::OomScores(scores))
}

/// The scores as [`parse_oom_scores`] reads them.
pub(crate) fn format_oom_scores(scores: &[i32; 3]) -> String {
    scores.map(|score| score.to_string()).join(" ")
}

/// A list of percentiles; none for `""`.
pub(crate) fn parse_percentiles(arguments: &[Vec<u8>]) -> Result<Vec<f64>, Reason> {
    if let [only] = arguments
        && only.is_empty()
    {
        return Ok(Vec::new());
    }
    let one = |word: &Vec<u8>| -> Result<f64, Reason> {
        let number = std::str::from_utf8(word).ok().and_then(|text| text.parse::<f64>().ok());
        match number {
            Some(percentile) if (0.0..=100.0).contains(&percentile) => Ok(percentile),
            Some(percentile) if !percentile.is_nan() => {
                Err("latency-tracking-info-percentiles parameters should sit between [0.0,100.0]"
                    .into())
            }
            _ => Err("Invalid latency-tracking-info-percentiles parameters".into()),
        }
    };
    arguments.iter().map(one).collect()
}

/// The percentiles with up to six decimals and no trailing zeros, which is how
/// INFO names its fields after them.
pub(crate) fn format_percentiles(list: &[f64]) -> String {
    let one = |percentile: &f64| {
        let text = format!("{percentile:.6}");
        text.trim_end_matches('0').trim_end_matches('.').to_string()
    };
    list.iter().map(one).collect::<Vec<_>>().join(" ")
}

/// `host port`, or none for `no one` and `""`. Dumps of CONFIG GET contain the latter.
pub(crate) fn parse_primary(arguments: &[Vec<u8>]) -> Result<Option<Primary>, Reason> {
    match arguments {
        [only] if only.is_empty() => Ok(None),
        [no, one] if no.eq_ignore_ascii_case(b"no") && one.eq_ignore_ascii_case(b"one") => Ok(None),
        [host, port] => match integer(port).map(u16::try_from) {
            Some(Ok(port)) => Ok(Some(Primary { host: host.clone(), port })),
            _ => Err("Invalid primary port".into()),
        },
        _ => Err("wrong number of arguments".into()),
    }
}

/// `host port`, or nothing.
pub(crate) fn format_primary(primary: Option<&Primary>) -> Vec<u8> {
    match primary {
        Some(Primary { host, port }) => [host.as_slice(), format!(" {port}").as_bytes()].concat(),
        None => Vec::new(),
    }
}
