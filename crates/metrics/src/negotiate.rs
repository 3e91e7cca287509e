//! Which format a client gets, by its header Accept (RFC 9110, section 12.5.1).

/// The formats of `/metrics`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// The text format 0.0.4 of Prometheus.
    Prometheus,
}

impl Format {
    pub fn content_type(self) -> &'static str {
        match self {
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Format::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// OpenMetrics if the client names it and doesn't prefer text/plain, else the older format, which every client reads. A
/// client that accepts neither gets the older format, too.
pub fn format(accept: &str) -> Format {
    let mut open = 0;
    let mut plain = 0;
    for range in accept.split(',') {
        let mut parts = range.split(';').map(str::trim);
        let media_type = parts.next().unwrap_or_default().to_ascii_lowercase();
        let weight = weight(parts.clone());
        let is_known = |version: &str| matches!(version.trim_matches('"'), "1.0.0" | "0.0.1");
        let mut versions = parts.filter_map(|part| part.strip_prefix("version="));
        match &*media_type {
            "application/openmetrics-text" if versions.all(is_known) => open = open.max(weight),
            "text/plain" => plain = plain.max(weight),
            _ => {}
        }
    }
    if open > 0 && open >= plain { Format::OpenMetrics } else { Format::Prometheus }
}

/// The weight `q` in thousandths.
fn weight<'a>(mut parts: impl Iterator<Item = &'a str>) -> u32 {
    let Some(q) = parts.find_map(|part| part.strip_prefix("q=")) else { return 1000 };
    let q: f64 = q.trim().parse().unwrap_or(0.0);
    (q.clamp(0.0, 1.0) * 1000.0) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_metrics_is_for_clients_that_name_it() {
        // Prometheus 2.53 and 3.
        let prometheus = "application/openmetrics-text;version=1.0.0;q=0.5,application/\
                          openmetrics-text;version=0.0.1;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;\
                          q=0.2";
        assert_eq!(format(prometheus), Format::OpenMetrics);
        assert_eq!(format("application/openmetrics-text"), Format::OpenMetrics);
        assert_eq!(format("Application/OpenMetrics-Text; version=\"1.0.0\""), Format::OpenMetrics);
    }

    #[test]
    fn all_others_get_plain_text() {
        for accept in [
            "",
            "*/*",
            "text/html, */*;q=0.8",
            "text/plain",
            "text/plain;q=0.9, application/openmetrics-text;q=0.5",
            "application/openmetrics-text;q=0",
            "application/openmetrics-text; version=2.0.0",
            "application/openmetrics-text;q=nonsense",
            ";;;,,,=",
        ] {
            assert_eq!(format(accept), Format::Prometheus, "{accept}");
        }
    }
}
