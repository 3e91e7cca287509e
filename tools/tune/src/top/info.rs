//! The text of INFO as fields.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::str::FromStr;

/// The fields of INFO, by name. Names are unique over all sections.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Info(BTreeMap<String, String>);

impl Info {
    /// Reads the text of INFO.
    pub fn parse(text: &str) -> Info {
        let fields = text.lines().filter(|line| !line.starts_with('#'));
        let fields = fields.filter_map(|line| line.trim_end().split_once(':'));
        Info(fields.map(|(name, value)| (name.to_string(), value.to_string())).collect())
    }

    /// A field.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// A field, or the empty text.
    pub fn text(&self, name: &str) -> String {
        self.get(name).unwrap_or_default().to_string()
    }

    /// A field that is a number.
    pub fn number<T: FromStr>(&self, name: &str) -> Option<T> {
        self.get(name)?.parse().ok()
    }

    /// A count; 0 if the server doesn't report it.
    pub fn count(&self, name: &str) -> u64 {
        self.number(name).unwrap_or(0)
    }

    /// A field that is 0 or 1.
    pub fn flag(&self, name: &str) -> bool {
        self.count(name) != 0
    }

    /// The fields whose names start with `prefix`: the rest of the name, and the value.
    pub fn below<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = (&'a str, Parts<'a>)> {
        let fields = self.0.range::<str, _>((Bound::Included(prefix), Bound::Unbounded));
        let fields =
            fields.map_while(move |(name, value)| Some((name.strip_prefix(prefix)?, value)));
        fields.map(|(name, value)| (name, Parts(value)))
    }
}

/// A value of the form `calls=2,usec=15`.
#[derive(Clone, Copy, Debug)]
pub struct Parts<'a>(pub &'a str);

impl Parts<'_> {
    /// One part.
    pub fn number<T: FromStr>(self, name: &str) -> Option<T> {
        let parts = self.0.split(',').filter_map(|part| part.split_once('='));
        parts.into_iter().find(|(part, _)| *part == name)?.1.parse().ok()
    }

    /// A part that is a count, or 0.
    pub fn count(self, name: &str) -> u64 {
        self.number(name).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_and_their_parts() {
        let info = Info::parse(
            "# Server\r\nredis_version:7.2.4\r\nlistener0:name=tcp,bind=::1\r\n\r\n# Commandstats\r\n\
             cmdstat_get:calls=2,usec=15\r\ncmdstat_config|get:calls=1,usec=7\r\ncmdz:1\r\n",
        );
        assert_eq!(info.get("listener0"), Some("name=tcp,bind=::1"));
        assert_eq!((info.count("cmdz"), info.count("none"), info.flag("cmdz")), (1, 0, true));
        let calls: Vec<(&str, u64)> =
            info.below("cmdstat_").map(|(name, parts)| (name, parts.count("calls"))).collect();
        assert_eq!(calls, [("config|get", 1), ("get", 2)]);
        assert_eq!(info.below("redis_version").count(), 1);
    }
}
