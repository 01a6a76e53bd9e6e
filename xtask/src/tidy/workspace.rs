//! The workspace as the rules see it: every text that they look at, in memory, so that a test can hand in a made-up
//! one.

use std::collections::BTreeMap;
use std::path::Path;
use std::{fs, io};

use super::commits;
use super::config::SURFACE_LISTS;
use super::manifest::Manifest;
use super::source::Source;

/// Packages, sources and other texts. Paths are relative to the root, with `/`.
#[derive(Debug)]
pub(crate) struct Workspace {
    pub(crate) packages: Vec<Package>,
    pub(crate) files: Vec<File>,
    /// Everything that was read, sources too.
    pub(crate) texts: BTreeMap<String, String>,
    /// Names and subjects of the commits that are not on main yet.
    pub(crate) commits: Vec<(String, String)>,
}

/// A folder with a manifest.
#[derive(Debug)]
pub(crate) struct Package {
    pub(crate) name: String,
    /// `crates/slab`.
    pub(crate) dir: String,
    pub(crate) manifest: Manifest,
}

/// A Rust source file.
#[derive(Debug)]
pub(crate) struct File {
    /// `crates/slab/src/key.rs`.
    pub(crate) path: String,
    /// The folder of the package.
    pub(crate) package: String,
    pub(crate) role: Role,
    source: Source,
}

/// What a source file is for; most rules are for the product only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Users run it.
    Product,
    /// A test, beside the sources or in `tests`.
    Test,
    /// Examples, benchmarks, fuzz targets and this program.
    Tool,
}

impl core::ops::Deref for File {
    type Target = Source;

    fn deref(&self) -> &Source {
        &self.source
    }
}

impl File {
    /// The name without folders and `.rs`.
    pub(crate) fn stem(&self) -> &str {
        let name = self.path.rsplit('/').next().unwrap_or(&self.path);
        name.strip_suffix(".rs").unwrap_or(name)
    }

    /// The path inside the package: `src/key.rs`.
    pub(crate) fn path_in_package(&self) -> &str {
        self.path.strip_prefix(&self.package).map_or(&*self.path, |rest| rest.trim_start_matches('/'))
    }

    /// Whether this is the file, or lies in the folder, that may touch the operating system.
    pub(crate) fn is_sys(&self) -> bool {
        self.path.split('/').any(|part| matches!(part, "sys" | "sys.rs"))
    }

    /// The folder in which its child modules lie, with a `/` at the end.
    pub(crate) fn children(&self) -> String {
        let (dir, name) = self.path.rsplit_once('/').unwrap_or(("", &self.path));
        let in_package = self.path_in_package();
        let is_root = in_package == format!("src/{name}") && matches!(name, "lib.rs" | "main.rs");
        if is_root || name == "mod.rs" || is_target_root(in_package) {
            format!("{dir}/")
        } else {
            format!("{dir}/{}/", self.stem())
        }
    }
}

impl Workspace {
    /// Reads the workspace under `root`.
    pub(crate) fn load(root: &Path) -> io::Result<Workspace> {
        let mut texts = BTreeMap::new();
        read_into(root, root, &mut texts)?;
        Ok(Workspace { commits: commits::not_on_main(root), ..Workspace::from_texts(texts) })
    }

    /// A workspace of these paths and texts.
    pub(crate) fn from_texts(texts: BTreeMap<String, String>) -> Workspace {
        let mut packages = Vec::new();
        for (path, text) in &texts {
            let Some(dir) = path.strip_suffix("/Cargo.toml") else { continue };
            let manifest = Manifest::parse(text);
            let name = manifest.value("package", "name").unwrap_or(dir).to_owned();
            packages.push(Package { name, dir: dir.to_owned(), manifest });
        }
        let mut files = Vec::new();
        for (path, text) in texts.iter().filter(|(path, _)| path.ends_with(".rs")) {
            let inside = |package: &&Package| path.starts_with(&format!("{}/", package.dir));
            let package = packages.iter().filter(inside).max_by_key(|package| package.dir.len());
            let package = package.map_or_else(String::new, |package| package.dir.clone());
            let role = role(path, &package);
            files.push(File { path: path.clone(), package, role, source: Source::parse(text) });
        }
        Workspace { packages, files, texts, commits: Vec::new() }
    }

    /// The package in this folder.
    pub(crate) fn package(&self, dir: &str) -> Option<&Package> {
        self.packages.iter().find(|package| package.dir == dir)
    }

    /// The packages that users get.
    pub(crate) fn published(&self) -> impl Iterator<Item = &Package> {
        self.packages.iter().filter(|package| package.dir.starts_with("crates/"))
    }

    /// The file at this path.
    pub(crate) fn file(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    /// The sources that users run.
    pub(crate) fn product(&self) -> impl Iterator<Item = &File> {
        self.files.iter().filter(|file| file.role == Role::Product)
    }
}

fn role(path: &str, package: &str) -> Role {
    let inside = path.strip_prefix(package).unwrap_or(path);
    if inside.split('/').any(|part| matches!(part, "tests" | "tests.rs")) {
        Role::Test
    } else if !package.starts_with("crates/") || inside.starts_with("/benches/") || inside.starts_with("/examples/") {
        Role::Tool
    } else {
        Role::Product
    }
}

/// Whether Cargo takes the file, by its place, as the root of a target of its own.
pub(crate) fn is_target_root(path_in_package: &str) -> bool {
    let parts: Vec<&str> = path_in_package.split('/').collect();
    match parts.as_slice() {
        ["build.rs"] => true,
        ["src", file] => matches!(*file, "lib.rs" | "main.rs"),
        ["src", "bin", rest @ ..] | ["tests" | "benches" | "examples", rest @ ..] => {
            matches!(rest, [_] | [_, "main.rs"])
        }
        _ => false,
    }
}

/// Reads what the rules look at, without build output, hidden folders (but for `.ci`) and workspaces of their own.
fn read_into(root: &Path, dir: &Path, texts: &mut BTreeMap<String, String>) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        let name = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().replace('\\', "/");
        let last = name.rsplit('/').next().unwrap_or(&name);
        if path.is_dir() {
            let skipped =
                last == "target" || (last.starts_with('.') && last != ".ci") || SKIPPED.contains(&name.as_str());
            if !skipped {
                read_into(root, &path, texts)?;
            }
        } else if [".rs", ".toml", ".md"].iter().any(|ending| last.ends_with(ending))
            || name == ".ci/run"
            || name.starts_with(SURFACE_LISTS)
        {
            texts.insert(name, fs::read_to_string(&path)?);
        }
    }
    Ok(())
}

/// Workspaces of their own, of programs to compare with, and inputs.
const SKIPPED: [&str; 4] = ["benches/peers", "conformance/grpc", "fuzz/corpus", "fuzz/artifacts"];
