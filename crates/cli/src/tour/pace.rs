//! Step 5: more writes than a tree carries, by policy of the write controller, simulated.

use super::show::Show;
use serde_json::json;
use spanlith_pace::ThrottlePolicy;
use spanlith_workload::sim::{Params, run as simulate};

/// Simulated seconds.
const SECONDS: f64 = 30.0;

/// Shows throughput and its least window under each policy.
pub fn run(show: &mut Show) {
    let mut below_half = 0;
    for policy in ThrottlePolicy::ALL {
        let o = simulate(&Params {
            policy,
            seconds: SECONDS,
            ..Params::default()
        });
        let (mean, least) = (o.even.mean / 1e5, o.even.min / 1e5);
        show.say(&format!(
            "{:<12} {mean:>5.1} MB/s, the least 100 ms at {least:>4.1} MB/s, {} of {} below half of the median",
            policy.name(),
            o.even.below_half,
            o.even.windows
        ));
        show.record(
            &format!("pace_{}", policy.name()),
            json!({ "mean_mb_s": mean, "least_mb_s": least, "below_half": o.even.below_half }),
        );
        if policy == ThrottlePolicy::Smooth {
            below_half = o.even.below_half;
        }
    }
    show.verdict(
        below_half == 0,
        "smooth holds writers to a flat line where the others stop and go",
    );
}
