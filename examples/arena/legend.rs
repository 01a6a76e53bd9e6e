//! What the lines of `--plan` mean, and in which units. It goes to stderr: stdout is for programs.

use std::fmt::Write as _;

use plimsoll::plan::{Part, Plan};

/// The sums of a plan: their names, units and meanings.
const SUMS: [[&str; 3]; 6] = [
    ["fixed", "bytes", "sum of what is held from the start"],
    ["parked_connection", "bytes", "sum for a connection that waits for a request"],
    ["active_exchange", "bytes", "sum for a connection that is worked on, what it holds parked included"],
    ["kernel_per_connection", "bytes", "held by the kernel, about; not under the line, but under a container's limit"],
    ["parked_max", "connections", "that many fit, all parked"],
    ["active_max", "connections", "that many fit, all worked on"],
];

/// A line for each line of the plan.
pub(crate) fn of(plan: &Plan) -> String {
    let line = plan.line_bytes();
    let mut text = format!("memory plan under a line of {line} bytes, in the order of the output:\n");
    let (apart, summed): (Vec<_>, Vec<_>) = plan.rows().partition(|row| row.part == Part::Apart);
    for row in summed {
        put(&mut text, [row.name, "bytes", meaning(row.part)]);
    }
    for sum in SUMS {
        put(&mut text, sum);
    }
    for row in apart {
        put(&mut text, [row.name, "bytes", meaning(row.part)]);
    }
    text
}

fn meaning(part: Part) -> &'static str {
    match part {
        Part::Fixed => "held from the start, by all workers together",
        Part::Parked => "held for every connection",
        Part::Active => "held for a connection while it is worked on, on top",
        Part::Apart => "held for what its name says, such as a connection of HTTP/2, on top; in none of the sums",
    }
}

fn put(text: &mut String, [name, unit, meaning]: [&str; 3]) {
    let written = writeln!(text, "  {name:<22} {unit:<12} {meaning}");
    debug_assert!(written.is_ok(), "a string takes everything");
}
