//! What users name has one path.

use std::collections::BTreeMap;

use super::{Finding, Verdict, Workspace};
use crate::tidy::config::{FACADE, SURFACE_LISTS};
use crate::tidy::imports;

/// Each public item of the facade is reached by one path, as the listings of the public surface have them.
///
/// A listing does not say where a `pub use` is from: the sources do. What it names is then looked for in the listing of
/// that crate; one without a listing is known by its path. A crate of ours that is exported as a whole must have a
/// listing, else what is reached through it would not be seen.
pub(super) fn one_path(workspace: &Workspace) -> Verdict {
    let lists: Vec<List<'_>> = workspace
        .texts
        .iter()
        .filter_map(|(path, text)| Some(List::of(path.strip_prefix(SURFACE_LISTS)?.strip_suffix(".txt")?, text)))
        .collect();
    let Some(facade) = lists.iter().find(|list| list.root == FACADE) else {
        return Verdict { figure: "no facade".to_owned(), findings: Vec::new() };
    };
    let mut walk = Walk { lists: &lists, workspace, paths: BTreeMap::new(), unlisted: Vec::new() };
    walk.module(facade, facade.root, FACADE);
    let file = format!("{SURFACE_LISTS}{FACADE}.txt");
    let mut findings: Vec<Finding> = walk.unlisted.iter().map(|what| Finding::new(&file, 0, what)).collect();
    let count = walk.paths.len();
    for paths in walk.paths.into_values().filter(|paths| paths.len() > 1) {
        let message = format!("`{}` are one item: leave one of the paths out", paths.join("` and `"));
        findings.push(Finding::new(&file, 0, message));
    }
    Verdict { figure: format!("{count} items"), findings }
}

/// The listing of a crate.
struct List<'a> {
    /// As in paths: `plimsoll_http`.
    root: &'a str,
    /// Each item that is no member of another: what kind, its path, and what its line says behind that.
    items: Vec<Item<'a>>,
    lines: Vec<&'a str>,
}

#[derive(Clone, Copy)]
struct Item<'a> {
    kind: &'a str,
    path: &'a str,
    rest: &'a str,
}

impl<'a> Item<'a> {
    /// From `pub async fn a::b::name(u8) -> u8`.
    fn of(line: &'a str) -> Option<Self> {
        const KINDS: [&str; 11] =
            ["mod", "use", "struct", "enum", "union", "trait", "fn", "const", "static", "type", "macro"];
        let (_, mut rest) = line.split_once("pub ")?;
        let mut kind = None;
        // `const fn` is a function, `unsafe trait` a trait.
        while let Some((word, behind)) = rest.split_once(' ') {
            match KINDS.iter().find(|kind| **kind == word) {
                Some(known) => kind = Some(*known),
                None if matches!(word, "async" | "unsafe" | "auto" | "proc") => {}
                None => break,
            }
            rest = behind;
        }
        let is_of_path = |letter: char| letter.is_alphanumeric() || matches!(letter, '_' | ':');
        let glob = rest.split_once("::<<").map(|(before, _)| before.len());
        let end = glob.unwrap_or_else(|| rest.find(|letter| !is_of_path(letter)).unwrap_or(rest.len()));
        let path = rest[..end].trim_end_matches(':');
        Some(Self { kind: kind.unwrap_or("member"), path, rest: &rest[path.len()..] })
    }

    fn name(&self) -> &'a str {
        self.path.rsplit("::").next().unwrap_or(self.path)
    }

    /// The crate of `pub use plimsoll::http::<<plimsoll_http::*>>`.
    fn glob(&self) -> Option<&'a str> {
        self.rest.strip_prefix("::<<")?.strip_suffix("::*>>")
    }
}

impl<'a> List<'a> {
    fn of(package: &str, text: &'a str) -> Self {
        let lines: Vec<&str> = text.lines().collect();
        let all: Vec<Item<'_>> = lines.iter().filter_map(|line| Item::of(line)).collect();
        let root = all.first().map_or("", |item| item.path);
        debug_assert!(root.is_empty() || root == package.replace('-', "_"), "a listing begins with its crate");
        let modules: Vec<&str> = all.iter().filter(|item| item.kind == "mod").map(|item| item.path).collect();
        let is_in_module = |item: &Item<'_>| {
            let above = item.path.rsplit_once("::").map_or("", |(above, _)| above);
            item.glob().is_some() || modules.contains(&above)
        };
        Self { root, items: all.into_iter().filter(is_in_module).collect(), lines }
    }

    /// What is in a module.
    fn within(&self, module: &str) -> impl Iterator<Item = Item<'a>> {
        self.items.iter().copied().filter(move |item| match item.glob() {
            Some(_) => item.path == module,
            None => item.path.rsplit_once("::").is_some_and(|(above, _)| above == module),
        })
    }

    /// What is said of an item and of its members, without its path: the same for the same item, wherever it is. Where
    /// it is known by several paths, members are listed behind each, with one of them.
    fn text(&self, item: Item<'_>) -> String {
        let at = self.lines.iter().position(|line| Item::of(line).is_some_and(|other| other.path == item.path));
        let behind = self.lines.iter().skip(at.map_or(self.lines.len(), |at| at + 1));
        let mut known = format!("{} {}{}", item.kind, item.name(), item.rest);
        let member = format!("{}::", item.name());
        for other in behind.filter_map(|line| Item::of(line)).take_while(|other| !self.is_item(other)) {
            if let Some((_, name)) = other.path.split_once(&member) {
                known += &format!("\n{} {name}{}", other.kind, other.rest.replace(item.path, item.name()));
            }
        }
        known
    }

    fn is_item(&self, item: &Item<'_>) -> bool {
        self.items.iter().any(|known| known.path == item.path)
    }
}

/// A walk over all that can be reached from the facade.
struct Walk<'a> {
    lists: &'a [List<'a>],
    workspace: &'a Workspace,
    /// By what is said of an item: where it is.
    paths: BTreeMap<String, Vec<String>>,
    /// What the walk cannot see.
    unlisted: Vec<String>,
}

impl<'a> Walk<'a> {
    /// Notes what is in a module of a listing, which the facade has at `at`.
    fn module(&mut self, list: &List<'a>, module: &str, at: &str) {
        for item in list.within(module) {
            let here = format!("{at}::{}", item.name());
            match item.kind {
                "use" => match item.glob() {
                    Some(root) => self.whole(root, at),
                    None => self.exported(list, item, &here),
                },
                "mod" => self.module(list, item.path, &here),
                _ => self.note(list.text(item), here),
            }
        }
    }

    /// All of a crate.
    fn whole(&mut self, root: &str, at: &str) {
        match self.lists.iter().find(|list| list.root == root) {
            Some(list) => self.module(list, list.root, at),
            None => self.unlisted.push(format!("`{at}` is all of `{root}`: export what users need of it by name")),
        }
    }

    /// A `pub use` of one name.
    fn exported(&mut self, from: &List<'a>, item: Item<'a>, here: &str) {
        let Some(origin) = self.origin(from, item.name()) else {
            return self.note(format!("use {}", item.path), here.to_owned());
        };
        let (root, rest) = origin.split_once("::").unwrap_or((&origin, ""));
        let list = self.lists.iter().find(|list| list.root == root);
        match list.and_then(|list| Some((list, list.items.iter().copied().find(|item| item.path == origin)?))) {
            _ if rest.is_empty() && root.starts_with(FACADE) => self.whole(root, here),
            Some((list, found)) if found.kind == "mod" => self.module(list, found.path, here),
            Some((list, found)) if found.kind == "use" => self.exported(list, found, here),
            Some((list, found)) => self.note(list.text(found), here.to_owned()),
            None => self.note(format!("use {origin}"), here.to_owned()),
        }
    }

    /// What a crate exports by a name, as its sources say: the path from another crate on.
    fn origin(&self, list: &List<'_>, name: &str) -> Option<String> {
        let package = self.workspace.packages.iter().find(|package| package.name.replace('-', "_") == list.root)?;
        let files = self.workspace.product().filter(|file| file.package == package.dir);
        let exports = files.flat_map(imports::exports).filter(|(known, _)| known == name);
        let is_ours = |path: &[String]| matches!(path.first().map(String::as_str), Some("crate" | "self" | "super"));
        let listed = |path: &str| self.workspace.packages.iter().any(|known| known.name.replace('-', "_") == path);
        let mut paths: Vec<Vec<String>> = exports.map(|(_, path)| path).filter(|path| !is_ours(path)).collect();
        paths.sort_by_key(|path| !listed(&path[0]));
        paths.first().map(|path| path.join("::"))
    }

    fn note(&mut self, item: String, path: String) {
        let paths = self.paths.entry(item).or_default();
        if !paths.contains(&path) {
            paths.push(path);
        }
    }
}
