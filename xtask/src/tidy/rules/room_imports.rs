//! A room is read with the rooms below it, and without those above: no import runs up.

use std::collections::BTreeMap;

use super::{Finding, Verdict, Workspace};
use crate::tidy::config::{ROOMS, ROOMS_PACKAGE, UP_LEFT};
use crate::tidy::imports::Imports;

/// Every file of [`ROOMS_PACKAGE`] but its root lies in a room, and imports from this room and those below. What still
/// imports from above, or from a room beside, is counted in [`UP_LEFT`], and does not grow.
pub(super) fn none_upwards(workspace: &Workspace) -> Verdict {
    judged(workspace, &UP_LEFT)
}

/// The same with a list of what is left: the room that imports, the one that it imports from, and how many files of the
/// other each file takes names from, all in all.
pub(super) fn judged(workspace: &Workspace, left: &[(&str, &str, usize)]) -> Verdict {
    let Some(package) = workspace.package(ROOMS_PACKAGE) else { return Verdict::default() };
    let mut findings = Vec::new();
    let of_package = workspace.product().filter(|file| file.package == package.dir);
    for file in of_package.filter(|file| file.path_in_package() != "src/lib.rs" && room(&file.path).is_none()) {
        findings.push(Finding::new(&file.path, 0, "lies in no room of `ROOMS`".to_owned()));
    }
    let (mut up, mut count) = (BTreeMap::<(&str, &str), Vec<String>>::new(), 0);
    let arrows = Imports::of_package(workspace, &package.dir).arrows(workspace);
    for (from, to) in arrows.iter().flat_map(|(from, files)| files.iter().map(move |to| (from, to))) {
        let (Some((above, room)), Some((level, other))) = (room(from), room(to)) else { continue };
        count += usize::from(room != other);
        if room != other && level <= above {
            up.entry((room, other)).or_default().push(format!("{from} -> {}", inside(to)));
        }
    }
    for ((room, other), told) in &up {
        let allowed = left.iter().find(|(from, to, _)| (from, to) == (room, other)).map_or(0, |(_, _, left)| *left);
        let place = format!("{}/src/{room}", package.dir);
        if told.len() < allowed {
            let message =
                format!("{} imports from {other}, where {allowed} were left: say so in `UP_LEFT`", told.len());
            findings.push(Finding::new(place, 0, message));
        } else if told.len() > allowed {
            let list: String = told.iter().map(|arrow| format!("\n        {arrow}")).collect();
            let message = format!("{} imports from {other}, which is not below; {allowed} are left:{list}", told.len());
            findings.push(Finding::new(place, 0, message));
        }
    }
    for (room, other, _) in left.iter().filter(|(room, other, _)| !up.contains_key(&(*room, *other))) {
        let message = format!("no import from {other} is left: take it out of `UP_LEFT`");
        findings.push(Finding::new(format!("{}/src/{room}", package.dir), 0, message));
    }
    let upwards: usize = up.values().map(Vec::len).sum();
    Verdict { figure: format!("{upwards} of {count} imports between rooms run up or across, and are listed"), findings }
}

/// The room in which a file lies, and its level from the top.
fn room(path: &str) -> Option<(usize, &'static str)> {
    let (name, _) = inside(path).split_once('/')?;
    let level = ROOMS.iter().position(|rooms| rooms.contains(&name))?;
    Some((level, ROOMS[level].iter().find(|room| **room == name)?))
}

/// The path behind `src/`.
fn inside(path: &str) -> &str {
    path.rsplit_once("/src/").map_or(path, |(_, path)| path)
}
