//! Damaged directories of ours, opened through the C functions of both.

use super::{Pair, Table};
use crate::damage::cases::{apply, count, nth};
use crate::damage::image::{Image, Wanted, draw, kind};
use spanlith_testkit::Rng;

/// How a look at a directory ended, seen from the undamaged one.
fn outcome(results: &[String], whole: &[String]) -> &'static str {
    if results.iter().any(|l| l.starts_with("HANG")) {
        return "hangs";
    }
    if results.iter().any(|l| l.starts_with("CRASH")) {
        return "the process dies";
    }
    let (open, dump) = (results.get(1), results.get(2));
    if open.is_some_and(|l| l.starts_with("E ")) {
        return "refused";
    }
    if dump.is_some_and(|l| l.starts_with("E ") || l.contains(" E ")) {
        return "a read fails";
    }
    if dump == whole.get(2) {
        "as it was"
    } else {
        "opened, something missing or wrong, no error"
    }
}

fn look(
    pair: &mut Pair,
    side: usize,
    image: &Image,
    with: Option<(usize, Option<&[u8]>)>,
) -> Result<Vec<String>, String> {
    let dir = pair.cleared(side)?;
    for (n, file) in image.files.iter().enumerate() {
        let bytes = match with {
            Some((at, damaged)) if at == n => damaged,
            _ => Some(&file.bytes[..]),
        };
        if let Some(bytes) = bytes {
            std::fs::write(dir.join(&file.name), bytes).map_err(|e| e.to_string())?;
        }
    }
    let open = format!(
        "open all create_if_missing=false;stats_dump_period_sec=0;max_open_files=-1;num_levels={}",
        image.program.setup.levels
    );
    pair.run(side, &["setup 0 0 0", &open, "dumpall", "close"])
}

/// Damages images until so many cases were seen.
///
/// # Errors
/// If a runner does not start, or an undamaged image does not open.
pub fn run(
    pair: &mut Pair,
    seed: u64,
    cases: u64,
    mut progress: impl FnMut(u64),
) -> Result<Table, String> {
    let mut table = Table::default();
    let mut rng = Rng::new(seed);
    let wanted = Wanted {
        plain: true,
        ..Wanted::default()
    };
    let mut last: Option<Image> = None;
    let mut done = 0;
    while done < cases {
        let image = draw(&mut rng, last.as_ref(), wanted)?;
        let whole = [look(pair, 0, &image, None)?, look(pair, 1, &image, None)?];
        if whole[0].get(2) != whole[1].get(2) || whole[0].get(1).is_none_or(|l| l != "ok") {
            return Err(format!("an undamaged image differs: {whole:?}"));
        }
        // Files that hold data; what happens to OPTIONS and IDENTITY changes no contents.
        let data: Vec<usize> = (0..image.files.len())
            .filter(|f| {
                [".log", ".sst", "MANIFEST", "CURRENT"].contains(&kind(&image.files[*f].name))
            })
            .collect();
        for _ in 0..100 {
            let f = *rng.pick(&data);
            let file = &image.files[f];
            let n = rng.index(count(file.bytes.len(), &file.others));
            let damage = nth(file.bytes.len(), &file.others, n);
            let bytes = apply(&file.bytes, &damage, &file.others);
            let row = format!(
                "{} of a {} database: {}",
                kind(&file.name),
                if image.closed { "closed" } else { "killed" },
                damage.class()
            );
            let mut ends = Vec::new();
            for (side, whole) in whole.iter().enumerate() {
                let results = look(pair, side, &image, Some((f, bytes.as_deref())))?;
                let end = outcome(&results, whole);
                table.add(&row, end, side);
                ends.push((end, results));
            }
            if ends[0].0 != ends[1].0 {
                let key = format!("{row}: {} / {}", ends[0].0, ends[1].0);
                pair.examples.entry(key).or_insert_with(|| {
                    format!(
                        "{} {damage:?}\n    {:?}\n    {:?}",
                        file.name, ends[0].1, ends[1].1
                    )
                });
            }
            done += 1;
        }
        progress(done);
        last = Some(image);
    }
    Ok(table)
}
