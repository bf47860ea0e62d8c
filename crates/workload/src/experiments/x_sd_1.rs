//! X-SD-1: how many loggers, and how many writes of each at once, a device needs ([SPAN] Figures 2 and 3), in virtual time.

use super::{Bench, Bound, Experiment, Figure, Findings, Result, Stores};
use spanlith_env::emulated::{DeviceSpec, Direction, Model, Profile, RawLoad, Way};

/// The entry of the table.
pub const ENTRY: Experiment = Experiment {
    id: "X-SD-1",
    title: "Loggers and writes in flight that a device needs, and what files cost",
    document: "[SPAN] Figures 2 and 3",
    requirements: "R-SPAN-01, R-SPAN-02, R-SPAN-17",
    setup: "emulated P4610 (N2) and P4800X (O) in virtual time: 1 to 4 loggers with 1 to 4 writes of 4 KiB each in flight, 20 000 writes; issuing \
            and checking cost a logger 0.5 us each. Reads and durable writes by 16 threads on O, directly and by way of files.",
    criterion: "the first product of loggers and writes within 3 % of the peak is 9 on O and 8 on N2, 3 more or less; a fourth logger \
                brings less than 3 %; 1 MiB reads by way of files within 10 %; 4 KiB durable writes 4.05 times as slow, within 5 %",
    stores: Stores::OnDevices,
    run,
};

/// Time of a logger for issuing a write, and for checking whether it is done.
const STEP_NANOS: u64 = 500;
const PAGE: u64 = 4096;

/// Writes per second, and nanoseconds of one in the mean.
#[derive(Clone, Copy, Debug)]
struct Cell {
    per_second: f64,
    mean_nanos: f64,
}

/// One cell of the grid: each logger keeps `in_flight` writes under way and waits for the first that ends.
fn cell(profile: Profile, loggers: usize, in_flight: usize, writes: u64) -> Cell {
    let mut model = Model::new(profile);
    // When each write in flight is done, by logger; and when each logger is free.
    let mut slots = vec![vec![0u64; in_flight]; loggers];
    let mut free = vec![0u64; loggers];
    let mut next: Vec<u64> = (0..loggers as u64).map(|l| l << 30).collect();
    let (mut waited, mut last) = (0u128, 0);
    for _ in 0..writes {
        // The logger that can issue first.
        let ready = |l: usize| {
            let done = slots[l].iter().min().copied().unwrap_or(0);
            done.max(free[l])
        };
        let logger = (0..loggers).min_by_key(|&l| ready(l)).unwrap_or(0);
        let issued = ready(logger) + 2 * STEP_NANOS;
        free[logger] = issued;
        let done = model.serve(issued, Direction::Write, next[logger], PAGE);
        next[logger] += PAGE;
        if let Some(slot) = slots[logger].iter_mut().min() {
            *slot = done;
        }
        waited += u128::from(done - issued);
        last = last.max(done);
    }
    Cell {
        per_second: writes as f64 / (last.max(1) as f64 / 1e9),
        mean_nanos: waited as f64 / writes.max(1) as f64,
    }
}

fn grid(found: &mut Findings, profile: Profile, knee: f64, printed: &str, writes: u64) {
    const LOGGERS: usize = 4;
    const IN_FLIGHT: usize = 4;
    let name = profile.name;
    let places: Vec<String> = (1..=LOGGERS)
        .flat_map(|l| (1..=IN_FLIGHT).map(move |r| format!("{l}L{r}R")))
        .collect();
    let cells: Vec<(usize, usize, Cell)> = (1..=LOGGERS)
        .flat_map(|l| (1..=IN_FLIGHT).map(move |r| (l, r)))
        .map(|(l, r)| (l, r, cell(profile, l, r, writes)))
        .collect();
    let rates: Vec<f64> = cells.iter().map(|c| c.2.per_second / 1e3).collect();
    let times: Vec<f64> = cells.iter().map(|c| c.2.mean_nanos / 1e3).collect();
    found.figures.push(
        Figure::new(
            format!("{name}: writes by second"),
            "thousand",
            places.clone(),
        )
        .all_measured(name, &rates),
    );
    found.figures.push(
        Figure::new(format!("{name}: time of a write"), "us", places).all_measured(name, &times),
    );
    let best = |most: usize| {
        let rates = cells.iter().filter(|c| c.0 <= most);
        rates.map(|c| c.2.per_second).fold(0.0, f64::max)
    };
    let first = cells
        .iter()
        .filter(|c| c.0 <= 3 && c.2.per_second >= 0.97 * best(3));
    let first = first.map(|c| c.0 * c.1).min().unwrap_or(0);
    found.check(
        format!("{name}: loggers times writes at the knee, printed {printed}"),
        Bound::Within(knee - 3.0, knee + 3.0),
        first as f64,
    );
    found.check(
        format!("{name}: a fourth logger over three"),
        Bound::AtMost(1.03),
        best(4) / best(3),
    );
}

/// Measures what files cost on O: reads and durable writes, directly over by way of files.
fn paths(found: &mut Findings, spec: &DeviceSpec, requests: u64, seed: u64) {
    let load = |bytes, read_percent, is_random, way| RawLoad {
        bytes,
        read_percent,
        is_random,
        ..RawLoad::durable_writes(way)
    };
    let kinds = [
        ("reads of 1 MiB", 1 << 20, 100, false, None),
        ("random reads of 4 KiB", PAGE, 100, true, None),
        ("durable writes of 4 KiB", PAGE, 0, false, Some(4.05)),
        ("durable writes of 64 KiB", 64 << 10, 0, false, None),
    ];
    let ratios = kinds.map(|(_, bytes, reads, random, _)| {
        let rate = |way| {
            load(bytes, reads, random, way)
                .run(spec, requests, seed)
                .per_second
        };
        rate(Way::Device) / rate(Way::Files)
    });
    found.figures.push(
        Figure::new(
            "O: directly over by way of files",
            "times",
            kinds.map(|k| k.0),
        )
        .printed("[SPAN]", &kinds.map(|k| k.4))
        .all_measured("O", &ratios),
    );
    found.check(
        "O: 1 MiB reads directly over by way of files",
        Bound::Within(0.9, 1.1),
        ratios[0],
    );
    found.check(
        "O: 4 KiB durable writes directly over by way of files",
        Bound::Within(4.05 * 0.95, 4.05 * 1.05),
        ratios[2],
    );
}

fn run(bench: &Bench<'_>) -> Result<Findings> {
    let mut found = Findings::default();
    let writes = bench.scaled(20_000, 4_000);
    bench.expect(3);
    for (name, knee, printed) in [("O", 9.0, "3L3R"), ("N2", 8.0, "2L4R")] {
        bench.step(name);
        if let Some(profile) = Profile::by_name(name) {
            grid(&mut found, profile, knee, printed, writes);
        }
    }
    bench.step("by way of files");
    if let Some(profile) = Profile::by_name("O") {
        paths(&mut found, &DeviceSpec::new(profile), writes, bench.seed(1));
    }
    found.note(
        "The engine has one logger, with one or two writes in flight, by the cores (sd_writes_in_flight): grouping reaches the bandwidth of a device with few large writes. The \
         journal's share is calibrated so that the printed 4.05 comes out; the other ratios follow from it.",
    );
    Ok(found)
}
