//! Which file of a crate takes names from which other, and the circles of that.
//!
//! A path is followed from module to module, and from a name that a module itself imports to where that comes from, so
//! `use crate::Error` leads to the file in which `Error` stands and not to the root that exports it again. `mod`
//! declares a child and is no import, and neither is `pub use` of what the file itself does not use. Names that only
//! tests have do not count, and neither do methods: an `impl` of a type of another file needs that type's name.

use std::collections::{BTreeMap, BTreeSet};

use super::lexer::{Token, TokenKind};
use super::source::closing;
use super::workspace::{File, Role, Workspace};

/// Files by path, and from each to those that it takes names from.
pub(crate) type Arrows = BTreeMap<String, BTreeSet<String>>;

/// A module: its names from the crate's root on.
type Module = Vec<String>;

/// A crate of one package.
pub(crate) struct Imports {
    /// Where each module stands.
    files: BTreeMap<Module, String>,
    /// What each imports: the name here, and the path behind it.
    uses: BTreeMap<Module, Vec<Use>>,
}

/// A name that a module imports, or all names of a path.
struct Use {
    /// `None`: all of them.
    name: Option<String>,
    path: Vec<String>,
    /// Only handed on to others.
    is_export: bool,
}

/// Follows no more names than this from one to the next.
const HOPS_MAX: usize = 16;

impl Imports {
    /// The crate whose library is in this folder.
    pub(crate) fn of_package(workspace: &Workspace, dir: &str) -> Imports {
        let mut imports = Imports { files: BTreeMap::new(), uses: BTreeMap::new() };
        if let Some(root) = workspace.file(&format!("{dir}/src/lib.rs")) {
            imports.add(workspace, root, Vec::new());
        }
        imports
    }

    fn add(&mut self, workspace: &Workspace, file: &File, module: Module) {
        let tokens = file.tokens.as_slice();
        self.files.insert(module.clone(), file.path.clone());
        for (inside, uses) in uses(file) {
            let module: Module = [&module[..], &inside].concat();
            self.files.entry(module.clone()).or_insert_with(|| file.path.clone());
            self.uses.entry(module).or_default().extend(uses);
        }
        for (inside, _) in inline_modules(tokens) {
            self.files.entry([&module[..], &inside].concat()).or_insert_with(|| file.path.clone());
        }
        for child in file.module_files().into_iter().filter(|child| !file.is_test_line(child.line)) {
            let names = child.path.join("/");
            let base = file.path.rsplit_once('/').map_or("", |(dir, _)| dir);
            let places = match &child.file {
                Some(path) => vec![format!("{base}/{path}")],
                None => vec![format!("{}{names}.rs", file.children()), format!("{}{names}/mod.rs", file.children())],
            };
            if let Some(found) = places.iter().find_map(|place| workspace.file(place))
                && found.role == Role::Product
            {
                self.add(workspace, found, [&module[..], &child.path].concat());
            }
        }
    }

    /// From each file to those that it takes names from.
    pub(crate) fn arrows(&self, workspace: &Workspace) -> Arrows {
        let mut arrows = Arrows::new();
        for (module, path) in &self.files {
            let Some(file) = workspace.file(path) else { continue };
            let to = arrows.entry(path.clone()).or_default();
            let own = self.uses.get(module).into_iter().flatten().filter(|found| !found.is_export);
            let own = own.map(|found| found.path.clone());
            // Paths in the code belong to the module that is the file, which is close enough for those in inline
            // modules.
            let is_file = module.is_empty() || self.files.get(&module[..module.len() - 1]) != Some(path);
            let is_child = |name: &str| self.files.contains_key(&[&module[..], &[name.to_owned()]].concat());
            let spelled = if is_file { paths(file, is_child) } else { Vec::new() };
            for target in own.chain(spelled) {
                to.extend(self.file_of(module, &target).filter(|found| found != path));
            }
        }
        arrows
    }

    /// The file in which what a path names stands, if it is one of this crate.
    fn file_of(&self, from: &Module, path: &[String]) -> Option<String> {
        let mut at = match path.first()?.as_str() {
            "crate" => Vec::new(),
            "self" => from.clone(),
            "super" => from[..from.len().checked_sub(1)?].to_vec(),
            // A name of the module itself, such as a child.
            first if self.files.contains_key(&[&from[..], &[first.to_owned()]].concat()) => {
                [&from[..], &[first.to_owned()]].concat()
            }
            _ => return None,
        };
        for name in path.iter().skip(1) {
            match name.as_str() {
                "self" => continue,
                "super" => {
                    at.pop()?;
                    continue;
                }
                _ => {}
            }
            let child = [&at[..], core::slice::from_ref(name)].concat();
            if self.files.contains_key(&child) {
                at = child;
            } else {
                return self.defined_in(&at, name, HOPS_MAX).or_else(|| self.files.get(&at).cloned());
            }
        }
        self.files.get(&at).cloned()
    }

    /// Where a name of a module stands that it imports itself.
    fn defined_in(&self, module: &Module, name: &str, hops: usize) -> Option<String> {
        let found = self.uses.get(module)?.iter().find(|found| found.name.as_deref() == Some(name))?;
        let hops = hops.checked_sub(1)?;
        let (last, before) = found.path.split_last()?;
        let Some(target) = self.module_of(module, before) else { return self.file_of(module, &found.path) };
        let child = [&target[..], core::slice::from_ref(last)].concat();
        match self.files.get(&child) {
            Some(file) => Some(file.clone()),
            None => self.defined_in(&target, last, hops).or_else(|| self.files.get(&target).cloned()),
        }
    }

    /// The module that a path names.
    fn module_of(&self, from: &Module, path: &[String]) -> Option<Module> {
        let mut at = from.clone();
        for (index, name) in path.iter().enumerate() {
            match name.as_str() {
                "crate" if index == 0 => at.clear(),
                "self" => {}
                "super" => drop(at.pop()?),
                name => at.push(name.to_owned()),
            }
        }
        self.files.contains_key(&at).then_some(at)
    }
}

/// The circles: files of which each reaches all others of its circle, the largest circle first.
pub(crate) fn circles(arrows: &Arrows) -> Vec<BTreeSet<String>> {
    let reached: BTreeMap<&String, BTreeSet<&String>> =
        arrows.keys().map(|file| (file, reached_from(arrows, file))).collect();
    let mut found: Vec<BTreeSet<String>> = Vec::new();
    for (file, targets) in &reached {
        if !targets.contains(file) || found.iter().any(|circle| circle.contains(*file)) {
            continue;
        }
        let back = targets.iter().filter(|target| reached.get(*target).is_some_and(|files| files.contains(file)));
        found.push(back.map(|target| (*target).clone()).collect());
    }
    found.sort_by_key(|circle| core::cmp::Reverse(circle.len()));
    found
}

/// What is reached from a file; itself only in a circle.
fn reached_from<'a>(arrows: &'a Arrows, file: &String) -> BTreeSet<&'a String> {
    let mut reached = BTreeSet::new();
    let mut waiting: Vec<&String> = arrows.get(file).into_iter().flatten().collect();
    while let Some(next) = waiting.pop() {
        if reached.insert(next) {
            waiting.extend(arrows.get(next).into_iter().flatten());
        }
    }
    reached
}

/// What a file exports by `pub use`: the name here, and the path behind it.
pub(crate) fn exports(file: &File) -> Vec<(String, Vec<String>)> {
    let tokens = file.tokens.as_slice();
    let mut names = Vec::new();
    for at in 1..tokens.len() {
        if tokens[at].is("use") && tokens[at - 1].is("pub") && !file.is_test_line(tokens[at].line) {
            tree(tokens, at + 1, &[], &mut names);
        }
    }
    names.into_iter().filter_map(|(name, path)| Some((name?, path))).collect()
}

/// The inline modules of a file, each with the index of its first token.
fn inline_modules(tokens: &[Token]) -> Vec<(Module, core::ops::Range<usize>)> {
    let mut around: Vec<(String, usize)> = Vec::new();
    let mut found = Vec::new();
    for at in 0..tokens.len().saturating_sub(2) {
        while around.last().is_some_and(|(_, end)| *end < at) {
            around.pop();
        }
        if tokens[at].is("mod") && tokens[at + 2].is("{") {
            around.push((tokens[at + 1].text.clone(), closing(tokens, at + 2)));
            let module = around.iter().map(|(name, _)| name.clone()).collect();
            found.push((module, at..closing(tokens, at + 2)));
        }
    }
    found
}

/// The imports of each module that stands in a file, without those of tests.
fn uses(file: &File) -> BTreeMap<Module, Vec<Use>> {
    let tokens = file.tokens.as_slice();
    let inline = inline_modules(tokens);
    let is_used = |name: &str| words_outside_imports(file).any(|word| word == name);
    let mut found: BTreeMap<Module, Vec<Use>> = BTreeMap::from([(Vec::new(), Vec::new())]);
    for at in 0..tokens.len() {
        if !tokens[at].is("use") || file.is_test_line(tokens[at].line) {
            continue;
        }
        // `pub use`, `pub(crate) use`.
        let is_public = at > 0 && (tokens[at - 1].is("pub") || tokens[at - 1].is(")"));
        let inside =
            inline.iter().rev().find(|(_, range)| range.contains(&at)).map_or(Vec::new(), |(name, _)| name.clone());
        let mut names = Vec::new();
        tree(tokens, at + 1, &[], &mut names);
        for (name, path) in names {
            let is_export = is_public && !name.as_deref().is_some_and(is_used);
            found.entry(inside.clone()).or_default().push(Use { name, path, is_export });
        }
    }
    found
}

/// All words of a file that do not belong to imports, declarations of modules or tests.
fn words_outside_imports(file: &File) -> impl Iterator<Item = &str> {
    let (mut in_import, mut is_module) = (false, false);
    let words = file.tokens.as_slice().iter().filter(move |token| {
        in_import = if in_import { !token.is(";") } else { token.is("use") };
        let is_name_of_module = ::core::mem::replace(&mut is_module, token.is("mod"));
        !in_import && !is_name_of_module && token.kind == TokenKind::Word
    });
    words.filter(|token| !file.is_test_line(token.line)).map(|token| token.text.as_str())
}

/// Adds what a tree of imports names from `at` on; answers with the index behind it.
fn tree(tokens: &[Token], mut at: usize, before: &[String], found: &mut Vec<(Option<String>, Vec<String>)>) -> usize {
    let mut path = before.to_vec();
    while let Some(token) = tokens.get(at) {
        if token.is("{") {
            let end = closing(tokens, at);
            at += 1;
            while at < end {
                at = tree(tokens, at, &path, found);
                at += usize::from(tokens[at].is(","));
            }
            return end + 1;
        } else if token.is("*") {
            found.push((None, path));
            return at + 1;
        } else if token.is("as") {
            found.push((tokens.get(at + 1).map(|name| name.text.clone()), path));
            return at + 2;
        } else if token.is("::") {
            at += 1;
        } else if token.kind == TokenKind::Word {
            path.push(token.text.clone());
            at += 1;
        } else {
            break;
        }
    }
    let names_parent = path.last().is_some_and(|last| last == "self");
    if names_parent {
        path.pop();
    }
    found.push((path.last().cloned(), path));
    at
}

/// Paths that begin with `crate`, `self`, `super` or a child, outside of imports and tests.
fn paths(file: &File, is_child: impl Fn(&str) -> bool) -> Vec<Vec<String>> {
    let tokens = file.tokens.as_slice();
    let mut found = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let token = &tokens[at];
        if token.is("use") {
            at += tokens[at..].iter().position(|token| token.is(";")).unwrap_or(1);
        }
        let begins = ["crate", "self", "super"].iter().any(|word| tokens[at].is(word))
            || tokens[at].kind == TokenKind::Word && is_child(&tokens[at].text) && !(at > 0 && tokens[at - 1].is("::"));
        // `pub(crate)` has no `::` behind it, and `$crate` or a method's `self` neither.
        if !begins || file.is_test_line(tokens[at].line) || !tokens.get(at + 1).is_some_and(|next| next.is("::")) {
            at += 1;
            continue;
        }
        let mut path = vec![tokens[at].text.clone()];
        while tokens.get(at + 1).is_some_and(|next| next.is("::"))
            && let Some(name) = tokens.get(at + 2).filter(|name| name.kind == TokenKind::Word)
        {
            path.push(name.text.clone());
            at += 2;
        }
        found.push(path);
        at += 1;
    }
    found
}

#[cfg(test)]
mod tests;
