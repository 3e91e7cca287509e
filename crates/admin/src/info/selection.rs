//! The sections that an INFO selects.

/// A section, in the order of the reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    Server,
    Tls,
    Clients,
    Memory,
    Persistence,
    Stats,
    Replication,
    Cpu,
    Threads,
    Modules,
    CommandStats,
    ErrorStats,
    LatencyStats,
    Cluster,
    ScriptingEngines,
    Keyspace,
}

/// The smallest group word that includes a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Default,
    All,
    Everything,
}

impl Section {
    pub const ALL: [Section; 16] = [
        Section::Server,
        Section::Tls,
        Section::Clients,
        Section::Memory,
        Section::Persistence,
        Section::Stats,
        Section::Replication,
        Section::Cpu,
        Section::Threads,
        Section::Modules,
        Section::CommandStats,
        Section::ErrorStats,
        Section::LatencyStats,
        Section::Cluster,
        Section::ScriptingEngines,
        Section::Keyspace,
    ];

    /// The line above the section, without its `# `. In lower case and without spaces, it is the
    /// word that selects the section.
    pub fn title(self) -> &'static str {
        match self {
            Section::Server => "Server",
            Section::Tls => "TLS",
            Section::Clients => "Clients",
            Section::Memory => "Memory",
            Section::Persistence => "Persistence",
            Section::Stats => "Stats",
            Section::Replication => "Replication",
            Section::Cpu => "CPU",
            Section::Threads => "Threads",
            Section::Modules => "Modules",
            Section::CommandStats => "Commandstats",
            Section::ErrorStats => "Errorstats",
            Section::LatencyStats => "Latencystats",
            Section::Cluster => "Cluster",
            Section::ScriptingEngines => "Scripting Engines",
            Section::Keyspace => "Keyspace",
        }
    }

    /// The smallest group word that includes this section. As in the reference, `all` leaves out
    /// the sections of modules.
    fn part(self) -> Part {
        match self {
            Section::Server
            | Section::Clients
            | Section::Memory
            | Section::Persistence
            | Section::Stats
            | Section::Replication
            | Section::Cpu
            | Section::Modules
            | Section::ErrorStats
            | Section::Cluster
            | Section::Keyspace => Part::Default,
            Section::Tls
            | Section::Threads
            | Section::CommandStats
            | Section::LatencyStats
            | Section::ScriptingEngines => Part::All,
        }
    }

    fn bit(self) -> u32 {
        1 << self as u32
    }
}

/// A set of sections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Selection(u32);

impl Selection {
    /// Parses the words after INFO. No words select the default; unknown words select nothing.
    pub fn of(words: &[&[u8]]) -> Selection {
        if words.is_empty() {
            return Selection(up_to(Part::Default));
        }
        Selection(words.iter().map(|word| of_word(word)).fold(0, |set, bits| set | bits))
    }

    /// The sections of the set, in the order of the reply.
    pub fn sections(self) -> impl Iterator<Item = Section> {
        Section::ALL.into_iter().filter(move |s| self.0 & s.bit() != 0)
    }
}

fn of_word(word: &[u8]) -> u32 {
    let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
    if is("default") {
        up_to(Part::Default)
    } else if is("all") {
        up_to(Part::All) & !Section::Modules.bit()
    } else if is("everything") {
        up_to(Part::Everything)
    } else {
        let asked = |s: &Section| is(&s.title().replace(' ', ""));
        Section::ALL.into_iter().find(asked).map_or(0, Section::bit)
    }
}

fn up_to(part: Part) -> u32 {
    Section::ALL.into_iter().filter(|s| s.part() <= part).map(Section::bit).fold(0, |a, b| a | b)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn titles(words: &[&str]) -> Vec<&'static str> {
        let words: Vec<&[u8]> = words.iter().map(|w| w.as_bytes()).collect();
        Selection::of(&words).sections().map(Section::title).collect()
    }

    #[test]
    fn sections_of_several_words_keep_reply_order() {
        assert_eq!(titles(&["keyspace", "SERVER", "nosuch"]), ["Server", "Keyspace"]);
        assert!(titles(&["nosuch"]).is_empty());
        assert_eq!(titles(&[]), titles(&["default"]));
        assert_eq!(titles(&["cpu", "cpu"]), ["CPU"]);
        assert_eq!(titles(&["scriptingengines", "tls"]), ["TLS", "Scripting Engines"]);
        assert!(titles(&["scripting engines"]).is_empty());
    }

    #[test]
    fn group_words_select_their_sections() {
        let (default, all, everything) =
            (titles(&["default"]), titles(&["all"]), titles(&["everything"]));
        assert!(!default.contains(&"Commandstats") && all.contains(&"Commandstats"));
        assert!(!all.contains(&"Modules") && everything.contains(&"Modules"));
        assert_eq!(everything.len(), Section::ALL.len());
        assert_eq!(titles(&["default", "all"]), everything);
    }
}
