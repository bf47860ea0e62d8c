//! Times of all operations on a key together, as JSON.

use super::coupled::{self, Coupled, Ratio};
use super::firsts::Classes;
use super::json::{
    At, firsts, masks, masks_json, name_of, operation_id, shape, shape_json, shapes, wrong,
};
use super::together::{CLASSES, Class, FOLLOW_MAX, Pair, QUARTERS, Together};
use serde_json::{Map, Value, json};
use spanlith_base::Result;
use std::collections::BTreeMap;

/// Between an operation and the one after it.
const AFTER: char = '>';

fn pairs_json<T>(all: &BTreeMap<Pair, T>, value: impl Fn(&T) -> Value) -> Map<String, Value> {
    let name = |&(a, b): &Pair| format!("{}{AFTER}{}", name_of(a), name_of(b));
    all.iter()
        .map(|(pair, of)| (name(pair), value(of)))
        .collect()
}

pub(super) fn together_json(t: &Together) -> Value {
    let class = |c: &Class| {
        let begin = c
            .begin
            .iter()
            .map(|(&op, &n)| (name_of(op).to_string(), n.into()));
        json!({
            "begin": begin.collect::<Map<String, Value>>(),
            "follow": pairs_json(&c.follow, |&n| n.into()),
            "gaps": pairs_json(&c.gaps, shape_json),
            "spans": c.spans.iter().map(shape_json).collect::<Vec<_>>(),
        })
    };
    let masks = t.coupled.masks.iter();
    let masks = masks.map(|(&mask, of_class)| (mask, of_class.to_vec()));
    let ratios = t.coupled.ratios.iter().map(|(&op, r)| {
        let value = json!({ "ratio": r.ratio, "spread": r.spread, "alone": r.alone });
        (name_of(op).to_string(), value)
    });
    json!({
        "firsts": t.firsts.iter().map(shape_json).collect::<Vec<_>>(),
        "masks": masks_json(&masks.collect()),
        "ratios": ratios.collect::<Map<String, Value>>(),
        "classes": t.classes.iter().map(class).collect::<Vec<_>>(),
    })
}

fn pairs<T>(at: &At<'_>, value: impl Fn(&At<'_>) -> Result<T>) -> Result<BTreeMap<Pair, T>> {
    let all = at.object()?.into_iter();
    let pair = |(name, of): (String, At<'_>)| {
        let (a, b) = name.split_once(AFTER).unwrap_or((&name, ""));
        let pair = (operation_id(a, &of.path)?, operation_id(b, &of.path)?);
        Ok((pair, value(&of)?))
    };
    all.map(pair).collect()
}

fn coupled(at: &At<'_>) -> Result<Coupled> {
    let of_class = |of: &At<'_>| -> Result<[f64; coupled::CLASSES]> {
        let all = of.list(coupled::CLASSES)?;
        let all = all.iter().map(|n| n.number(0.0, 1e12));
        let all: Vec<f64> = all.collect::<Result<_>>()?;
        all.try_into()
            .map_err(|_| wrong(&of.path, &format!("not {}", coupled::CLASSES)))
    };
    let mut ratios = BTreeMap::new();
    for (name, of) in at.field("ratios").object()? {
        let ratio = Ratio {
            ratio: of.field("ratio").number(0.0, 1e12)?,
            spread: of.field("spread").number(0.0, 10.0)?,
            alone: of.field("alone").number(0.0, 1e12)?,
        };
        ratios.insert(operation_id(&name, &of.path)?, ratio);
    }
    Ok(Coupled {
        masks: masks(&at.field("masks"), of_class)?,
        ratios,
    })
}

/// Models whose operations have their times alone, and those from before, have none.
pub(super) fn together(at: &At<'_>) -> Result<Option<Together>> {
    if at.value.is_null() {
        return Ok(None);
    }
    let mut classes = Vec::new();
    for class in at.field("classes").list(CLASSES)? {
        let mut begin = BTreeMap::new();
        for (name, of) in class.field("begin").object()? {
            let op = operation_id(&name, &of.path)?;
            begin.insert(op, of.number(0.0, FOLLOW_MAX)?);
        }
        classes.push(Class {
            begin,
            follow: pairs(&class.field("follow"), |n| n.number(0.0, FOLLOW_MAX))?,
            gaps: pairs(&class.field("gaps"), shape)?,
            spans: shapes::<QUARTERS>(&class.field("spans"))?,
        });
    }
    let classes = classes.try_into();
    let firsts: Classes = firsts(&at.field("firsts"))?;
    if firsts.iter().all(|f| f.is_empty()) {
        return Err(wrong(&at.field("firsts").path, "no time"));
    }
    Ok(Some(Together {
        coupled: coupled(at)?,
        firsts,
        classes: classes
            .map_err(|_| wrong(&at.field("classes").path, &format!("not {CLASSES}")))?,
    }))
}
