//! As much of a `Cargo.toml` as the rules need: tables, and the value of a key as it is written.

/// A manifest.
#[derive(Debug, Default)]
pub(crate) struct Manifest {
    /// Table, key and value in the order of the file. `[[bin]]` is the table `bin`.
    entries: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    table: String,
    key: String,
    value: String,
    line: usize,
}

impl Manifest {
    /// Reads tables of single-line entries; the lines of a longer array are appended to its value.
    pub(crate) fn parse(text: &str) -> Manifest {
        let mut entries: Vec<Entry> = Vec::new();
        let mut table = String::new();
        for (index, line) in text.lines().enumerate() {
            let line_text = line.split('#').next().unwrap_or_default().trim();
            if let Some(name) = line_text.strip_prefix('[').filter(|_| !line.starts_with(' ')) {
                table = name.trim_matches(['[', ']']).to_owned();
            } else if let Some((key, value)) = line_text.split_once('=').filter(|_| !line.starts_with(' ')) {
                let (key, value) = (key.trim().to_owned(), value.trim().trim_matches('"').to_owned());
                entries.push(Entry { table: table.clone(), key, value, line: index + 1 });
            } else if let Some(entry) = entries.last_mut().filter(|_| !line_text.is_empty()) {
                entry.value.push_str(line_text);
            }
        }
        Manifest { entries }
    }

    /// The first value of a key, without quotes.
    pub(crate) fn value(&self, table: &str, key: &str) -> Option<&str> {
        self.entries.iter().find(|entry| entry.table == table && entry.key == key).map(|entry| entry.value.as_str())
    }

    /// All values of a key of a table that may be there more than once.
    pub(crate) fn values<'a>(&'a self, table: &'a str, key: &'a str) -> impl Iterator<Item = &'a str> + 'a {
        self.entries
            .iter()
            .filter(move |entry| entry.table == table && entry.key == key)
            .map(|entry| entry.value.as_str())
    }

    /// Whether a table takes the key from the workspace: `key.workspace = true` or `key = { workspace = true }`.
    pub(crate) fn inherits(&self, table: &str, key: &str) -> bool {
        let dotted = format!("{key}.workspace");
        self.value(table, &dotted) == Some("true")
            || self.value(table, key).is_some_and(|value| value.replace(' ', "").contains("workspace=true"))
    }

    /// Names and lines of what is built in: not what only tests use.
    pub(crate) fn dependencies(&self) -> Vec<(&str, usize)> {
        let mut found = Vec::new();
        for entry in &self.entries {
            let table = entry.table.as_str();
            let built_in = |name: &str| {
                name == "dependencies"
                    || name == "build-dependencies"
                    || (name.starts_with("target.") && name.ends_with(".dependencies"))
            };
            if built_in(table) {
                found.push((entry.key.split('.').next().unwrap_or_default(), entry.line));
            } else if let Some((parent, name)) = table.rsplit_once('.').filter(|(parent, _)| built_in(parent)) {
                debug_assert!(!parent.is_empty());
                found.push((name, entry.line));
            }
        }
        found
    }
}

#[cfg(test)]
mod tests;
