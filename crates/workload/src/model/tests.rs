//! A workload that is observed, modelled and made again looks as before (R-WL-22 to R-WL-26, X-WL-2).

use super::*;
use crate::analyze::Operation;
use spanlith::trace::{
    Extension, ExtensionReader, TraceReader, kinds, put_get, put_query_header, put_record,
    put_seek, put_write_head,
};
use spanlith_base::Result;
use spanlith_env::SequentialFile;
use spanlith_wal::WriteBatch;

struct Bytes(Vec<u8>, usize);

impl SequentialFile for Bytes {
    fn read(&mut self, buf: &mut [u8]) -> Result<usize> {
        let n = (self.0.len() - self.1).min(buf.len());
        buf[..n].copy_from_slice(&self.0[self.1..self.1 + n]);
        self.1 += n;
        Ok(n)
    }
}

fn observed(trace: &[u8], beside: &[u8], options: ObserveOptions) -> Observation {
    let mut reader = TraceReader::new(Box::new(Bytes(trace.to_vec(), 0)));
    let beside = ExtensionReader::new(Box::new(Bytes(beside.to_vec(), 0))).unwrap();
    Observation::read(&mut reader, Some(beside), options).unwrap()
}

/// A trace of hot ranges, two sizes of keys that have to do with the values, a rate like a sine, and scans.
fn workload(requests: u64) -> (Vec<u8>, Vec<u8>) {
    let (mut trace, mut beside, mut payload) = (Vec::new(), Vec::new(), Vec::new());
    let began = 1_700_000_000_000_000;
    put_query_header(&mut payload);
    put_record(&mut trace, began, kinds::BEGIN, &payload);
    Extension::put_header(&mut beside, began);
    let mut dice = Dice::new(3);
    let mut at = 0.0f64;
    for ordinal in 0..requests {
        at += 1000.0 / (1.0 + 0.6 * (at / 3e6).sin());
        let range = (40.0 * dice.unit().powi(4)) as u64;
        let key = range * 200 + (200.0 * dice.unit().powi(2)) as u64;
        let name = match mix(key) % 10 {
            0 => format!("key{key:029}"),
            _ => format!("key{key:025}"),
        };
        payload.clear();
        let mut extension = Extension {
            ordinal,
            nanos: 5000,
            found: 1,
            ..Extension::default()
        };
        let kind = match dice.below(100) {
            0..80 => {
                put_get(&mut payload, 0, name.as_bytes());
                kinds::GET
            }
            80..96 => {
                let size = (35.0 * (dice.unit().max(1e-6).powf(-0.26) - 1.0) / 0.26) as usize + 10;
                let mut batch = WriteBatch::new();
                batch
                    .put_cf(0, name.as_bytes(), &vec![1; size + 200 * (name.len() / 30)])
                    .unwrap();
                put_write_head(&mut payload, batch.as_bytes().len());
                payload.extend_from_slice(batch.as_bytes());
                kinds::WRITE
            }
            _ => {
                put_seek(&mut payload, 0, name.as_bytes(), None, None);
                extension.next = [1, 1, 200, dice.next() % 50][dice.below(4)];
                kinds::SEEK
            }
        };
        extension.kind = kind;
        put_record(&mut trace, began + at as u64, kind, &payload);
        extension.encode(&mut beside);
    }
    (trace, beside)
}

fn made(model: &Model) -> (Vec<u8>, Vec<u8>) {
    let (mut trace, mut beside) = (Vec::new(), Vec::new());
    generate(model, &GenerateOptions::default(), &mut trace, &mut beside).unwrap();
    (trace, beside)
}

fn assert_alike(a: &Observation, b: &Observation, limit: f64) {
    let (fa, fb) = (&a.families[&0], &b.families[&0]);
    let near = |what: &str, x: f64, y: f64, by: f64| {
        assert!((x - y).abs() <= by * x.max(1.0), "{what}: {x} and {y}");
    };
    for operation in [Operation::Get, Operation::Put, Operation::Seek] {
        let apart = fa
            .access_counts(operation)
            .distance(&fb.access_counts(operation));
        assert!(apart <= limit, "accesses of {operation:?}: {apart}");
        near(
            "accesses",
            a.accesses(operation) as f64,
            b.accesses(operation) as f64,
            0.05,
        );
    }
    for (what, x, y) in [
        ("key sizes", &fa.key_sizes, &fb.key_sizes),
        ("value sizes", &fa.value_sizes, &fb.value_sizes),
        ("scan lengths", &fa.scan_lengths, &fb.scan_lengths),
    ] {
        let apart = x.distance(y);
        assert!(apart <= limit, "{what}: {apart}");
    }
    near("keys", fa.keys.len() as f64, fb.keys.len() as f64, 0.05);
    near("time", a.span_micros as f64, b.span_micros as f64, 0.02);
}

#[test]
fn a_workload_that_is_made_of_its_model_is_alike() {
    let (trace, beside) = workload(60_000);
    let first = observed(&trace, &beside, ObserveOptions::default());
    let model = Model::of(&first);
    // R-WL-22: sizes of keys and values have to do with each other, so they are drawn together.
    let family = &model.families[&0];
    assert!(
        family.correlations["key size, value size"].0 > 0.5,
        "{:?}",
        family.correlations
    );
    assert!(family.value_sizes.len() > 1);
    // The rate is found to be a sine.
    let rate = &model.rate_curve.as_ref().unwrap().fit;
    assert_eq!(rate.family, crate::fit::Family::Sine, "{rate:?}");
    let (trace, beside) = made(&model);
    let second = observed(&trace, &beside, ObserveOptions::default());
    assert_alike(&first, &second, 0.05);
}

#[test]
fn a_model_survives_its_file_and_says_nothing_of_keys() {
    let (trace, beside) = workload(5_000);
    let model = Model::of(&observed(&trace, &beside, ObserveOptions::default()));
    let text = model.to_json().to_string();
    assert!(!text.contains("key000"));
    let read = Model::from_json(&serde_json::from_str(&text).unwrap()).unwrap();
    // Text of numbers with a fraction is read to some fifteen digits.
    fn plain(m: &Model) -> String {
        let mut m = m.clone();
        m.rate_curve = None;
        for f in m.families.values_mut() {
            f.curves.clear();
            f.correlations.clear();
        }
        fn rounded(v: &mut serde_json::Value) {
            match v {
                serde_json::Value::Array(all) => all.iter_mut().for_each(rounded),
                serde_json::Value::Object(all) => all.values_mut().for_each(rounded),
                serde_json::Value::Number(n) if n.is_f64() => {
                    *v = format!("{:.9}", n.as_f64().unwrap()).into();
                }
                _ => {}
            }
        }
        let mut json = m.to_json();
        rounded(&mut json);
        json.to_string()
    }
    assert_eq!(plain(&read), plain(&model));
    // Requests follow from the seed.
    assert!(made(&model) == made(&model));
    assert_eq!(made(&model).0.len(), made(&read).0.len());
}

#[test]
fn what_a_model_cannot_be_is_refused_by_name() {
    let (trace, beside) = workload(2_000);
    let model = Model::of(&observed(&trace, &beside, ObserveOptions::default())).to_json();
    let with = |path: &str, value: serde_json::Value| {
        let mut m = model.clone();
        *m.pointer_mut(path).unwrap() = value;
        Model::from_json(&m).unwrap_err().to_string()
    };
    let e = with("/format", "other".into());
    assert!(e.contains("format"), "{e}");
    let e = with("/seconds", (-1).into());
    assert!(e.contains("seconds") && e.contains("-1"), "{e}");
    let e = with("/families/0/keys", 5.into());
    assert!(e.contains("families.0") && e.contains("5 keys"), "{e}");
    let e = with("/families/0/absent", 2.into());
    assert!(e.contains("families.0.absent"), "{e}");
    let e = with("/families/0/key_sizes/spikes/0/1", 1.5.into());
    assert!(e.contains("key_sizes.spikes[0]"), "{e}");
    let e = with("/families/0/ranges/0/keys", 1.into());
    assert!(e.contains("families.0.ranges[0]: 1 keys, and "), "{e}");
    let e = with(
        "/families/0/ranges/0/accessed/get/counts/0",
        serde_json::json!([0, 1, 1]),
    );
    assert!(e.contains("get.counts[0]: no part of numbers"), "{e}");
    let e = with("/families/0/operations/put/nearness/together", 2.into());
    assert!(e.contains("put.nearness.together"), "{e}");
    let e = with("/families/0/ranks", serde_json::json!({ "get+fly": 0.5 }));
    assert!(e.contains("ranks.get+fly: no operation"), "{e}");
    let e = with("/families/0/ranges/0/parts/get", serde_json::json!([3, 4]));
    assert!(e.contains("parts.get: not keys and the runs"), "{e}");
    let e = with("/families/0/ranges", serde_json::Value::Null);
    assert!(e.contains("ranges: no list"), "{e}");
    assert!(Model::from_json(&serde_json::Value::Null).is_err());
    let empty = Model::default();
    let e = generate(
        &empty,
        &GenerateOptions::default(),
        &mut Vec::new(),
        &mut Vec::new(),
    );
    assert!(e.unwrap_err().to_string().contains("the model: 0"));
}

/// A trace whose clock stepped back, to before the header and far ahead once.
#[test]
fn clocks_that_step_back_do_no_harm() {
    let (trace, _) = workload(2000);
    let mut reader = TraceReader::new(Box::new(Bytes(trace, 0)));
    let mut wild = Vec::new();
    for (n, leap) in (0..).zip(
        [0, 0, 5_000_000, -3_000_000, i64::MIN / 2, 40_000_000_000]
            .iter()
            .cycle(),
    ) {
        let Some(record) = reader.next_record().unwrap() else {
            break;
        };
        let leap = if n > 0 && n % 50 == 0 { *leap } else { 0 };
        let at = record.timestamp.saturating_add_signed(leap);
        put_record(&mut wild, at, record.kind, record.payload);
    }
    let mut reader = TraceReader::new(Box::new(Bytes(wild, 0)));
    let seen = Observation::read(&mut reader, None, ObserveOptions::default()).unwrap();
    assert_eq!(seen.requests, 2000);
    let model = Model::of(&seen);
    assert!(
        model.seconds.is_finite() && model.rate.len() <= 512,
        "{}",
        model.seconds
    );
    let (trace, beside) = made(&model);
    let again = observed(&trace, &beside, ObserveOptions::default());
    assert!(again.requests.abs_diff(2000) < 100, "{}", again.requests);
}

/// Hot keys that lie together in groups do so in what is made: half as many blocks would be read if all hot keys of a range did.
#[test]
fn groups_of_hot_keys_keep_their_size() {
    let (mut trace, mut payload) = (Vec::new(), Vec::new());
    put_query_header(&mut payload);
    put_record(&mut trace, 1, kinds::BEGIN, &payload);
    let mut requests = Vec::new();
    for key in 0..40_000_u64 {
        // Groups of 8 keys, of which each tenth is hot; a range has some twenty of them.
        let times = if mix(key / 8).is_multiple_of(10) {
            40
        } else {
            1
        };
        requests.extend((0..times).map(|n| (mix(key * 100 + n), key)));
    }
    requests.sort_unstable();
    for (at, (_, key)) in (1..).zip(&requests) {
        payload.clear();
        put_get(&mut payload, 0, format!("key{key:020}").as_bytes());
        put_record(&mut trace, at, kinds::GET, &payload);
    }
    let read = |trace: Vec<u8>| {
        let mut reader = TraceReader::new(Box::new(Bytes(trace, 0)));
        Observation::read(&mut reader, None, ObserveOptions::default()).unwrap()
    };
    let seen = read(trace);
    let model = Model::of(&seen);
    let family = &model.families[&0];
    let near = family.operations[&Operation::Get.id()].nearness;
    assert!(
        family.is_adjacent() && (6..=12).contains(&near.group) && near.together > 0.9,
        "{near:?}"
    );
    // Runs of hot keys in both.
    let runs = |seen: &Observation| {
        let hot: Vec<bool> = seen.families[&0]
            .keys
            .values()
            .map(|k| k.total() > 10)
            .collect();
        hot.windows(2).filter(|w| w[0] != w[1]).count() as f64
    };
    let (before, after) = (runs(&seen), runs(&read(made(&model).0)));
    assert!((after / before - 1.0).abs() < 0.4, "{before} {after}");
}

/// Puts concern other keys than gets, which lie in runs of 14 of 100; hot keys of gets are scattered, and deletions concern the hottest
/// of them: so do those that are made, and each range has its own accesses (R-WL-24).
#[test]
fn operations_concern_the_keys_in_the_runs_that_they_did() {
    let (mut trace, mut payload) = (Vec::new(), Vec::new());
    put_query_header(&mut payload);
    put_record(&mut trace, 1, kinds::BEGIN, &payload);
    let mut requests = Vec::new();
    for key in 0..40_000_u64 {
        let (heat, is_put) = (mix(key) % 20, key % 100 >= 86);
        // Each 4000 keys twice as hot as those before.
        let times = (1 + heat) << (key / 8000);
        let times = if is_put { 1 } else { times };
        requests.extend((0..times).map(|n| (mix(key * 1000 + n), key, if is_put { 1 } else { 0 })));
        if !is_put && heat >= 18 {
            requests.push((mix(key * 1000 + 999), key, 2));
        }
    }
    requests.sort_unstable();
    for (at, (_, key, operation)) in (1..).zip(&requests) {
        payload.clear();
        let name = format!("key{key:020}");
        let mut batch = WriteBatch::new();
        match operation {
            0 => put_get(&mut payload, 0, name.as_bytes()),
            1 => batch.put_cf(0, name.as_bytes(), b"value").unwrap(),
            _ => batch.delete_cf(0, name.as_bytes()).unwrap(),
        }
        let mut kind = kinds::GET;
        if *operation > 0 {
            put_write_head(&mut payload, batch.as_bytes().len());
            payload.extend_from_slice(batch.as_bytes());
            kind = kinds::WRITE;
        }
        put_record(&mut trace, at, kind, &payload);
    }
    let read = |trace: Vec<u8>| {
        let mut reader = TraceReader::new(Box::new(Bytes(trace, 0)));
        Observation::read(&mut reader, None, ObserveOptions::default()).unwrap()
    };
    let seen = read(trace);
    let model = Model::of(&seen);
    let near = model.families[&0].operations[&Operation::Get.id()].nearness;
    assert_eq!((near.together, near.group), (0.0, 0), "only ranges differ");
    let again = read(made(&model).0);
    let counts_of = |seen: &Observation, op: Operation| -> Vec<u32> {
        let keys = seen.families[&0].keys.values();
        keys.map(|k| k.counts[op.id()]).collect()
    };
    let [before, after] = [&seen, &again].map(|seen| {
        let [gets, puts, deletes] =
            [Operation::Get, Operation::Put, Operation::Delete].map(|op| counts_of(seen, op));
        let runs = puts.windows(2).filter(|w| w[0] == 0 && w[1] > 0).count();
        let deleted = gets.iter().zip(&deletes).filter(|(_, d)| **d > 0);
        let deleted: u32 = deleted.map(|(gets, _)| gets).sum();
        let tenths = gets.chunks(4000).map(|c| c.iter().sum::<u32>());
        let both = gets.iter().zip(&puts).filter(|(g, p)| **g > 0 && **p > 0);
        (runs, deleted, tenths.collect::<Vec<_>>(), both.count())
    });
    assert_eq!((before.3, after.3), (0, 0));
    let alike = |a: f64, b: f64, by: f64| assert!((b / a - 1.0).abs() < by, "{before:?} {after:?}");
    alike(before.0 as f64, after.0 as f64, 0.2);
    alike(f64::from(before.1), f64::from(after.1), 0.2);
    for (a, b) in before.2.iter().zip(&after.2) {
        alike(f64::from(*a), f64::from(*b), 0.02);
    }
}

/// R-WL-26: what a database holds besides is in its model, and in what is made of that.
#[test]
fn keys_that_are_not_accessed_lie_between_those_that_are() {
    let (trace, beside) = workload(20_000);
    let mut seen = observed(&trace, &beside, ObserveOptions::default());
    let family = seen.families.get_mut(&0).unwrap();
    let accessed: Vec<Vec<u8>> = family.keys.iter().map(|(key, _)| key).collect();
    let mut walk = family.walk();
    let mut stored = 0;
    for (n, key) in accessed.iter().enumerate() {
        // Each tenth is not there; three others follow each one of the first half.
        let others = if n < accessed.len() / 2 { 3 } else { 0 };
        if n % 10 != 0 {
            walk.add(key, &[7; 300], true);
            stored += 1;
        }
        for more in 0..others {
            walk.add(&[key, &[b'~', more][..]].concat(), &[7; 300], true);
            stored += 1;
        }
    }
    let found = walk.finish(true);
    assert_eq!(found.keys, stored);
    assert!(
        found.expected > 0 && found.missing > 0 && found.missing < found.expected,
        "{found:?}"
    );
    let model = Model::of(&seen);
    let family = &model.families[&0];
    assert!((0.08..0.12).contains(&family.absent), "{}", family.absent);
    let cold: u64 = family.ranges.iter().map(|r| r.cold).sum();
    assert_eq!(cold, 3 * (accessed.len() as u64 / 2));
    assert_eq!(family.positions.cold(), cold);
    let first: u64 = family
        .ranges
        .iter()
        .take(family.ranges.len() / 3)
        .map(|r| r.cold)
        .sum();
    assert!(first > cold / 2, "{first} of {cold}");
    // All keys are in order, whether they are accessed or not, and values are those of the database.
    let mut all: Vec<(u64, Vec<u8>)> = (0..family.keys)
        .map(|place| (family.positions.position(place), key_of(family, 0, place)))
        .chain(
            family
                .positions
                .cold_positions()
                .map(|at| (at, key_at(family, 0, at))),
        )
        .collect();
    all.sort();
    assert!(all.windows(2).all(|w| w[0].0 < w[1].0 && w[0].1 < w[1].1));
    assert_eq!(value_of(family, &all[0].1, 0).len(), 300);
    assert_eq!(
        Model::from_json(&model.to_json()).unwrap().families[&0].stored,
        family.stored
    );
    assert_eq!(
        Model::from_json(&model.to_json()).unwrap().families[&0].positions,
        family.positions
    );
}

/// With more keys than may be kept a share of them is, and the model has as many as there were.
#[test]
fn keys_beyond_the_limit_are_a_sample() {
    let (trace, beside) = workload(60_000);
    let all = observed(&trace, &beside, ObserveOptions::default());
    let some = observed(&trace, &beside, ObserveOptions { keys_max: 1000 });
    assert!(some.families[&0].keys.len() <= 1000);
    let (a, b) = (Model::of(&all), Model::of(&some));
    let (a, b) = (a.families[&0].keys as f64, b.families[&0].keys as f64);
    assert!((a / b - 1.0).abs() < 0.15, "{a} and {b} keys");
    let (fa, fb) = (&all.families[&0], &some.families[&0]);
    let apart = fa
        .access_counts(Operation::Get)
        .distance(&fb.access_counts(Operation::Get));
    assert!(apart < 0.08, "{apart}");
}

#[test]
fn shapes_draw_what_was_counted() {
    let mut sizes = Sizes::default();
    (1..=1000).for_each(|v| sizes.add(v, 1));
    sizes.add(64, 1000);
    let shape = Shape::of(&sizes);
    assert_eq!(shape.spikes.len(), 1);
    let mut drawn = Sizes::default();
    (0..20_000).for_each(|i| drawn.add(shape.draw((f64::from(i) + 0.5) / 20_000.0), 1));
    assert!(sizes.distance(&drawn) < 0.02, "{}", sizes.distance(&drawn));
    assert!((shape.mean() / sizes.mean() - 1.0).abs() < 0.03);
    assert_eq!(Shape::default().draw(0.5), 0);
}

#[test]
fn a_made_trace_has_as_many_keys_and_their_noise() {
    let (trace, beside) = workload(20_000);
    let first = observed(&trace, &beside, ObserveOptions::default());
    let model = Model::of(&first);
    let (trace, beside) = made(&model);
    let again = Model::of(&observed(&trace, &beside, ObserveOptions::default()));
    let (a, b) = (&model.families[&0], &again.families[&0]);
    let ratio = b.keys as f64 / a.keys as f64;
    assert!((0.99..=1.01).contains(&ratio), "{} {}", a.keys, b.keys);
    assert!(
        (a.key_noise - b.key_noise).abs() < 0.06,
        "{} {}",
        a.key_noise,
        b.key_noise
    );
}

/// Accesses and keys of gets in the first tenth of a trace's requests.
fn beginning(trace: &[u8], requests: u64) -> (f64, f64) {
    let mut reader = TraceReader::new(Box::new(Bytes(trace.to_vec(), 0)));
    let header = reader.next_record().unwrap().unwrap();
    let header = spanlith::trace::TraceHeader::from_record(&header).unwrap();
    let (mut accesses, mut keys) = (0, std::collections::HashSet::new());
    for _ in 0..requests / 10 {
        let record = reader.next_record().unwrap().unwrap();
        if let spanlith::trace::TraceRecord::Query(spanlith::trace::Query::Get { key, .. }) =
            header.decode(&record).unwrap()
        {
            accesses += 1;
            keys.insert(key.to_vec());
        }
    }
    (f64::from(accesses), keys.len() as f64)
}

#[test]
fn the_beginning_of_a_twin_has_as_many_keys_as_that_of_its_original() {
    // Keys of many accesses among keys of one, all over the ranges (R-WL-24).
    let (mut trace, mut beside, mut payload) = (Vec::new(), Vec::new(), Vec::new());
    let (began, requests) = (1_700_000_000_000_000, 60_000);
    put_query_header(&mut payload);
    put_record(&mut trace, began, kinds::BEGIN, &payload);
    Extension::put_header(&mut beside, began);
    let mut dice = Dice::new(5);
    for ordinal in 0..requests {
        let key = mix((30_000.0 * dice.unit().powi(4)) as u64);
        payload.clear();
        put_get(&mut payload, 0, format!("{key:020}").as_bytes());
        put_record(&mut trace, began + ordinal * 100, kinds::GET, &payload);
        let extension = Extension {
            ordinal,
            kind: kinds::GET,
            nanos: 1000,
            found: 1,
            ..Extension::default()
        };
        extension.encode(&mut beside);
    }
    let model = Model::of(&observed(&trace, &beside, ObserveOptions::default()));
    let read_back = Model::from_json(&model.to_json()).unwrap();
    let (accesses, keys) = beginning(&trace, requests);
    for model in [&model, &read_back] {
        let (twin_accesses, twin_keys) = beginning(&made(model).0, requests);
        assert_eq!(accesses, twin_accesses);
        let apart = (twin_keys / keys - 1.0).abs();
        assert!(apart < 0.05, "{keys} keys, its twin {twin_keys}");
    }
    // A time after the end is refused by name.
    let mut hostile = model.to_json();
    let get = &mut hostile["families"]["0"]["operations"]["get"];
    get["firsts"][0]["spikes"] = serde_json::json!([[2_000_000_000_u64, 0.5]]);
    let error = Model::from_json(&hostile).unwrap_err().to_string();
    let expected = "families.0.operations.get.firsts: a time after the end of the trace";
    assert!(error.contains(expected), "{error}");
}

/// Keys that live for a fifth of the trace, a few of them hot, and are put right after every third get.
fn living(requests: u64) -> (Vec<u8>, Vec<u8>) {
    let (mut trace, mut beside, mut payload) = (Vec::new(), Vec::new(), Vec::new());
    let began = 1_700_000_000_000_000;
    put_query_header(&mut payload);
    put_record(&mut trace, began, kinds::BEGIN, &payload);
    Extension::put_header(&mut beside, began);
    let mut dice = Dice::new(5);
    let mut read = None;
    for ordinal in 0..requests {
        let alive = 400 * ordinal / requests;
        let key = alive + (100.0 * dice.unit().powi(3)) as u64;
        let written = read.take().filter(|_| dice.below(3) == 0);
        let name = |key: u64| format!("{:016x}", mix(key));
        payload.clear();
        let kind = match written {
            Some(key) => {
                let mut batch = WriteBatch::new();
                batch.put_cf(0, name(key).as_bytes(), &[1; 50]).unwrap();
                put_write_head(&mut payload, batch.as_bytes().len());
                payload.extend_from_slice(batch.as_bytes());
                kinds::WRITE
            }
            None => {
                put_get(&mut payload, 0, name(key).as_bytes());
                read = Some(key);
                kinds::GET
            }
        };
        put_record(&mut trace, began + 100 * ordinal, kind, &payload);
    }
    (trace, beside)
}

/// The lives of keys and their writes while they are read are in the model, in its file, and in what is made of it.
#[test]
fn keys_that_live_for_a_while_are_made_so_again() {
    let (trace, beside) = living(40_000);
    let first = observed(&trace, &beside, ObserveOptions::default());
    let model = Model::of(&first);
    let family = &model.families[&0];
    assert!(family.together.is_some());
    // Names that chance decides have a few bytes in common, eight have numbers.
    assert!((1..=4).contains(&family.key_id), "{}", family.key_id);
    let read = Model::from_json(&model.to_json()).unwrap();
    assert_eq!(read.families[&0].together, family.together);
    assert_eq!(made(&read), made(&model));
    let (trace, beside) = made(&model);
    let second = observed(&trace, &beside, ObserveOptions::default());
    // Puts of keys that were got by the request before or a few before that.
    let soon = |seen: &Observation| {
        let keys = &seen.families[&0].keys;
        let (mut soon, mut puts) = (0.0, 0.0_f64);
        for history in keys.histories().keys() {
            for pair in history.windows(2).filter(|pair| pair[1].op == 1) {
                puts += 1.0;
                soon += f64::from(u8::from(pair[0].op == 0 && pair[1].at - pair[0].at < 8));
            }
        }
        soon / puts
    };
    let (a, b) = (soon(&first), soon(&second));
    assert!(a > 0.95 && b > 0.85 * a, "{a} {b}");
    let span = |seen: &Observation| {
        let keys = seen.families[&0].keys.values();
        let spans = keys.map(|key| (key.last[0] - key.first[0]) as f64);
        spans.sum::<f64>() / seen.families[&0].keys.len() as f64
    };
    let (a, b) = (span(&first), span(&second));
    assert!((b / a - 1.0).abs() < 0.06, "{a} {b}");
}

#[test]
fn histories_that_cannot_be_are_refused_by_name_and_older_models_have_none() {
    let (trace, beside) = living(4_000);
    let model = Model::of(&observed(&trace, &beside, ObserveOptions::default())).to_json();
    let with = |path: &str, value: serde_json::Value| {
        let mut m = model.clone();
        *m.pointer_mut(path).unwrap() = value;
        Model::from_json(&m).unwrap_err().to_string()
    };
    let e = with("/families/0/together/classes", serde_json::json!([]));
    assert!(e.contains("together.classes: not 16"), "{e}");
    let e = with(
        "/families/0/together/classes/0/follow",
        serde_json::json!({ "get>fly": 1.0 }),
    );
    assert!(e.contains("follow.get>fly: no operation"), "{e}");
    let e = with(
        "/families/0/together/classes/0/begin",
        serde_json::json!({ "get": -1.0 }),
    );
    assert!(e.contains("begin.get: -1 is not between"), "{e}");
    let e = with("/families/0/together/ratios/put/spread", 1e9.into());
    assert!(e.contains("ratios.put.spread"), "{e}");
    let e = with("/families/0/together/masks/get", serde_json::json!([1.0]));
    assert!(e.contains("masks.get: not 16"), "{e}");
    let e = with("/families/0/key_id", 0.into());
    assert!(e.contains("key_id: no byte"), "{e}");
    let mut before = model.clone();
    before["format"] = "spanlith-model-2".into();
    let family = before["families"]["0"].as_object_mut().unwrap();
    family.remove("together");
    family.remove("key_id");
    for range in family["ranges"].as_array_mut().unwrap() {
        range.as_object_mut().unwrap().remove("begins");
    }
    let before = Model::from_json(&before).unwrap();
    assert!(before.families[&0].together.is_none());
    assert!(!made(&before).0.is_empty());
}
