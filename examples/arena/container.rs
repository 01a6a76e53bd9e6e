//! Follows the container's memory limit while the server runs: an orchestrator may change it at any time.

use std::time::Duration;

use plimsoll::{ContainerLimit, LimitTooLow, MemoryLimit, budget, sleep};

/// How often the limit is read: two small files, some 50 us.
const EVERY: Duration = Duration::from_secs(2);

/// Moves the line with the container's limit: to what was asked for, or what the container leaves. Never ends.
pub(crate) async fn follow(asked: MemoryLimit) {
    let mut known = ContainerLimit::of_process();
    loop {
        sleep(EVERY).await;
        let now = ContainerLimit::of_process();
        if now != known {
            known = now;
            adopt(asked, now);
        }
    }
}

fn adopt(asked: MemoryLimit, container: Option<ContainerLimit>) {
    let container_bytes = container.map_or(u64::MAX, |container| container.bytes);
    budget().set_container_bytes(container_bytes);
    let wanted = line_in(asked, container);
    match budget().set_limit(wanted) {
        Ok(before) => tracing::warn!(
            container_bytes,
            line_bytes = wanted.as_bytes(),
            line_bytes_before = before.as_bytes(),
            "the container's limit has changed, and the memory line with it"
        ),
        // As low as it goes: the container is too small for what runs.
        Err(low) => {
            let LimitTooLow { floor_bytes, .. } = low;
            let lowest = budget().set_limit(MemoryLimit::bytes(floor_bytes)).is_ok();
            tracing::warn!(container_bytes, lowest, %low, "the container's limit is too low for the memory line");
        }
    }
}

/// The line in a container.
fn line_in(asked: MemoryLimit, container: Option<ContainerLimit>) -> MemoryLimit {
    let most = container.map_or(u64::MAX, |container| container.line_bytes_max().max(1));
    MemoryLimit::bytes(asked.as_bytes().min(most))
}

#[cfg(test)]
mod tests {
    use plimsoll::Runtime;

    use super::*;

    #[test]
    fn the_line_follows_the_container_down_and_up_again() {
        let asked = MemoryLimit::mib(32);
        let runtime = Runtime::builder().workers(1).memory(asked).container(None).build().expect("it starts");
        runtime.block_on(async {
            let line_in = |mib: u64| {
                adopt(asked, Some(ContainerLimit { bytes: mib << 20 }));
                (budget().limit(), budget().kernel_bytes_max())
            };
            assert_eq!(line_in(20), (MemoryLimit::mib(12), Some(4 << 20)), "60 % and 20 %");
            assert_eq!(line_in(100), (asked, Some(48 << 20)), "never above what was asked for");
            let (lowest, _) = line_in(1);
            assert!(lowest.as_bytes() >= budget().floor_bytes() && lowest < MemoryLimit::mib(4), "{lowest}");
            adopt(asked, None);
            assert_eq!(budget().limit(), asked);
        });
    }
}
