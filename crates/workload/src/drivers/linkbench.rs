//! LinkBench at key-value level ([SPACE] §5, [SPAN] Figure 14, R-WL-35): a graph of nodes and links.
//!
//! Families: `node` (id → type, version, time, data), `link` (id1, type, id2 → visibility, time, version, data),
//! `link_time` (id1, type, visibility, newest first, id2 → version, data) and `count` (id1, type → visible links). Numbers in keys
//! are big-endian. Adding, deleting and updating a link is a transaction over the last three. In the end every count must be
//! that of the visible links, and the two orders of links must hold the same links.

mod check;
mod graph;

use super::load::{client, fill};
use super::{Call, Drive, Driver, Load, Parameter, Phase};
use crate::generate::{Rng, Shuffle, Values, Zipfian};
use crate::store::{Batch, Direction, Error, Isolation, Result, Store};
use graph::{Graph, LinkValue, link_key, time_key};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The row of the table.
pub const DRIVER: Driver = Driver {
    name: "linkbench",
    title: "LinkBench's graph with its default mix, transactions, and a check that counts and orders agree",
    parameters: &[Parameter {
        name: "keys",
        default: "20000",
        what: "nodes that the load makes; about 4.1 links each",
    }],
    families: &["node", "link", "link_time", "count"],
    transactions: true,
    run,
    check: Some(|d| check::verdicts(d.store)),
};

pub(super) const NODE: usize = 1;
pub(super) const LINK: usize = 2;
pub(super) const LINK_TIME: usize = 3;
pub(super) const COUNT: usize = 4;

/// Shares of operations in percent, LinkBench's defaults.
const MIX: [(&str, f64); 10] = [
    ("add_link", 8.988_660_1),
    ("delete_link", 2.990_766_4),
    ("update_link", 8.012_212_5),
    ("count_link", 4.886_356_7),
    ("get_link", 0.526_114_2),
    ("get_link_list", 50.711_914_5),
    ("get_node", 12.932_668_3),
    ("add_node", 2.573_278_9),
    ("update_node", 7.366_437),
    ("delete_node", 1.011_591_4),
];

/// Links that a list shows at most.
const LIST_MAX: usize = 10_000;
/// Tries of a transaction that others are in the way of.
const TRIES: u32 = 1000;

/// Describes what all threads share.
struct Shared {
    graph: Graph,
    /// The next id of a node.
    next: AtomicU64,
    /// A clock that gives each change of a link its own time.
    clock: AtomicU64,
    conflicts: AtomicU64,
}

/// Picks ids: ranks of a zipfian, placed by a permutation of its own or, for a share, by degree.
struct Picker {
    zipfian: Zipfian,
    places: Shuffle,
    correlated: f64,
}

impl Picker {
    fn new(nodes: u64, theta: f64, correlated: f64, seed: u64) -> Self {
        Self {
            zipfian: Zipfian::new(nodes, theta),
            places: Shuffle::new(nodes, seed),
            correlated,
        }
    }

    fn pick(&self, rng: &mut Rng, graph: &Graph) -> u64 {
        let rank = self.zipfian.rank(rng.unit());
        match rng.unit() < self.correlated {
            true => graph.by_degree(rank),
            false => 1 + self.places.place(rank),
        }
    }
}

struct Client {
    shared: Arc<Shared>,
    rng: Rng,
    link_reads: Picker,
    link_writes: Picker,
    node_reads: Picker,
    node_updates: Picker,
    node_data: Values,
    link_data: Values,
    value: Vec<u8>,
}

impl Client {
    fn new(shared: &Arc<Shared>, seed: u64, thread: u64) -> Self {
        let nodes = shared.graph.nodes();
        Self {
            shared: Arc::clone(shared),
            rng: Rng::new(seed.wrapping_add(thread << 8)),
            link_reads: Picker::new(nodes, 0.8, 0.005, seed ^ 11),
            link_writes: Picker::new(nodes, 0.741, 0.05, seed ^ 11),
            node_reads: Picker::new(nodes, 0.625, 0.0, seed ^ 13),
            node_updates: Picker::new(nodes, 0.606, 0.0, seed ^ 13),
            node_data: Values::with_ratio(1 << 19, 0.6, seed ^ thread),
            link_data: Values::with_ratio(1 << 10, 0.3, seed ^ thread),
            value: Vec::new(),
        }
    }

    /// The other end of a link, as far away as `spread` makes of the node's number of links; its type follows.
    fn other(&mut self, id1: u64, spread: f64) -> (u64, u64) {
        let links = self.shared.graph.degree(id1) as f64;
        let far = (links / spread).ceil().max(1.0) as u64;
        let step = self.rng.below(far);
        (id1 + step, step % 2)
    }

    fn new_node(&mut self) -> Vec<u8> {
        let size = graph::log_normal(&mut self.rng, 128.0, 1 << 19);
        graph::node_value(1, self.node_data.sized(size))
    }

    /// Puts a link, replaces it, or hides it, with its place in time and the count of its node.
    fn change_link(
        &mut self,
        store: &dyn Store,
        link: (u64, u64, u64),
        how: Change,
    ) -> Result<(bool, usize)> {
        let (id1, kind, id2) = link;
        let key = link_key(id1, kind, id2);
        let size = graph::log_normal(&mut self.rng, 8.0, 255);
        let data = self.link_data.sized(size).to_vec();
        for _ in 0..TRIES {
            let time = self.shared.clock.fetch_add(1, Ordering::Relaxed);
            match self.try_change(store, link, &key, how, time, &data) {
                Err(e) if e.is_conflict() => {
                    self.shared.conflicts.fetch_add(1, Ordering::Relaxed);
                }
                result => return result,
            }
        }
        Err(Error::new(
            "linkbench",
            "a transaction was in conflict a thousand times",
        ))
    }

    fn try_change(
        &mut self,
        store: &dyn Store,
        (id1, kind, id2): (u64, u64, u64),
        key: &[u8],
        how: Change,
        time: u64,
        data: &[u8],
    ) -> Result<(bool, usize)> {
        let mut txn = store.begin(Isolation::ReadCommitted)?;
        let there = txn.get_for_update(LINK, key, &mut self.value)?;
        let old = match there {
            true => Some(LinkValue::decode(&self.value)?),
            false => None,
        };
        let was_visible = old.as_ref().is_some_and(|o| o.visible);
        let goes_on = match how {
            Change::Add => true,
            Change::Update => old.is_some(),
            Change::Hide => was_visible,
        };
        if !goes_on {
            return Ok((there, 0));
        }
        let new = LinkValue {
            visible: match how {
                Change::Add => true,
                Change::Update => was_visible,
                Change::Hide => false,
            },
            time,
            version: old.as_ref().map_or(0, |o| o.version + 1),
            data: data.to_vec(),
        };
        if let Some(old) = &old {
            txn.delete(LINK_TIME, &time_key(id1, kind, old.visible, old.time, id2))?;
        }
        let value = new.encode();
        txn.put(LINK, key, &value)?;
        txn.put(
            LINK_TIME,
            &time_key(id1, kind, new.visible, time, id2),
            &value,
        )?;
        let change = i64::from(new.visible) - i64::from(was_visible);
        if change != 0 {
            let key = graph::count_key(id1, kind);
            let there = txn.get_for_update(COUNT, &key, &mut self.value)?;
            let count = if there {
                graph::count_of(&self.value)?
            } else {
                0
            };
            let count = count.checked_add_signed(change);
            let count = count.ok_or_else(|| Error::new("linkbench", "a count fell below 0"))?;
            txn.put(COUNT, &key, &graph::count_value(count, time))?;
        }
        txn.commit()?;
        Ok((there, key.len() + value.len()))
    }

    fn list(&mut self, store: &dyn Store) -> Result<Call> {
        let id1 = self.link_reads.pick(&mut self.rng, &self.shared.graph);
        let kind = self.rng.below(2);
        // A few ask for what is older than some time.
        let from = match self.rng.unit() < 0.003 {
            true => self
                .rng
                .below(self.shared.clock.load(Ordering::Relaxed).max(1)),
            false => u64::MAX,
        };
        let start = time_key(id1, kind, true, from, 0);
        let (mut bytes, mut found) = (0, false);
        let prefix = &start[..17];
        store.scan(
            LINK_TIME,
            &start,
            Direction::Forward,
            LIST_MAX + 1,
            &mut |key, value| {
                let inside = key.starts_with(prefix);
                if inside {
                    found = true;
                    bytes += key.len() + value.len();
                }
                inside
            },
        )?;
        Ok(Call::read("get_link_list", found, bytes))
    }

    fn get_links(&mut self, store: &dyn Store) -> Result<Call> {
        let id1 = self.link_reads.pick(&mut self.rng, &self.shared.graph);
        let mut count = 1;
        while count < 128 && self.rng.unit() >= 0.382 {
            count += 1;
        }
        let keys: Vec<Vec<u8>> = (0..count)
            .map(|_| {
                let (id2, kind) = self.other(id1, 0.5);
                link_key(id1, kind, id2).to_vec()
            })
            .collect();
        let slices: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        let found = store.multi_get(LINK, &slices)? as u64;
        Ok(Call {
            looked_up: count,
            found,
            ..Call::wrote("get_link", 0)
        })
    }

    fn write_link(&mut self, store: &dyn Store, name: &'static str) -> Result<Call> {
        let id1 = self.link_writes.pick(&mut self.rng, &self.shared.graph);
        let (how, spread) = match name {
            "add_link" => (Change::Add, 0.05),
            "update_link" => (Change::Update, 0.9),
            _ => (Change::Hide, 0.9),
        };
        let (id2, kind) = self.other(id1, spread);
        let (found, bytes) = self.change_link(store, (id1, kind, id2), how)?;
        Ok(Call {
            bytes: bytes as u64,
            ..Call::read(name, found, 0)
        })
    }

    fn operate(&mut self, store: &dyn Store, name: &'static str) -> Result<Call> {
        let shared = Arc::clone(&self.shared);
        match name {
            "get_link_list" => self.list(store),
            "get_link" => self.get_links(store),
            "add_link" | "delete_link" | "update_link" => self.write_link(store, name),
            "count_link" => {
                let id1 = self.link_reads.pick(&mut self.rng, &shared.graph);
                let key = graph::count_key(id1, self.rng.below(2));
                let found = store.get(COUNT, &key, &mut self.value)?;
                Ok(Call::read(name, found, key.len() + self.value.len()))
            }
            "get_node" => {
                let id = self.node_reads.pick(&mut self.rng, &shared.graph);
                let found = store.get(NODE, &id.to_be_bytes(), &mut self.value)?;
                Ok(Call::read(name, found, 8 + self.value.len()))
            }
            "add_node" => {
                let id = shared.next.fetch_add(1, Ordering::Relaxed);
                let value = self.new_node();
                store.put(NODE, &id.to_be_bytes(), &value)?;
                Ok(Call::wrote(name, 8 + value.len()))
            }
            "update_node" => {
                let id = self.node_updates.pick(&mut self.rng, &shared.graph);
                let value = self.new_node();
                store.put(NODE, &id.to_be_bytes(), &value)?;
                Ok(Call::wrote(name, 8 + value.len()))
            }
            _ => {
                let id = 1 + self.rng.below(shared.graph.nodes());
                store.delete(NODE, &id.to_be_bytes())?;
                Ok(Call::wrote(name, 8))
            }
        }
    }
}

/// Describes what happens to a link.
#[derive(Clone, Copy, Debug)]
enum Change {
    Add,
    Update,
    Hide,
}

impl super::Client for Client {
    fn call(&mut self, store: &dyn Store) -> Result<Option<Call>> {
        let mut dice = self.rng.unit() * MIX.iter().map(|m| m.1).sum::<f64>();
        let mut name = MIX[MIX.len() - 1].0;
        for (operation, share) in MIX {
            if dice < share {
                name = operation;
                break;
            }
            dice -= share;
        }
        self.operate(store, name).map(Some)
    }
}

/// Puts the nodes, then their links with counts, one batch for each node.
fn load_graph(
    store: &dyn Store,
    shared: &Arc<Shared>,
    nodes: u64,
    seed: u64,
) -> Result<Vec<Phase>> {
    let mut maker = Client::new(shared, seed ^ 0x10ad, 0);
    let mut first = fill(store, NODE, nodes, move |n, key, value| {
        *key = (n + 1).to_be_bytes().to_vec();
        *value = maker.new_node();
    })?;
    first.name = "load nodes".to_string();
    let links = Load::all(nodes).run("load links", store, |_| {
        let shared = Arc::clone(shared);
        let mut maker = Client::new(&shared, seed ^ 0x10ae, 0);
        let (mut id1, mut batch) = (0, Batch::default());
        Ok(client(move |store: &dyn Store| {
            id1 += 1;
            batch.clear();
            let mut counts = [0_u64; 2];
            for step in 0..shared.graph.degree(id1) {
                let (id2, kind) = (id1 + step, step % 2);
                let time = shared.clock.fetch_add(1, Ordering::Relaxed);
                let size = graph::log_normal(&mut maker.rng, 8.0, 255);
                let link = LinkValue {
                    visible: true,
                    time,
                    version: 0,
                    data: maker.link_data.sized(size).to_vec(),
                };
                let value = link.encode();
                batch.put(LINK, &link_key(id1, kind, id2), &value);
                batch.put(LINK_TIME, &time_key(id1, kind, true, time, id2), &value);
                counts[step as usize % 2] += 1;
            }
            for (kind, count) in (0..).zip(counts).filter(|c| c.1 > 0) {
                let time = shared.clock.fetch_add(1, Ordering::Relaxed);
                batch.put(
                    COUNT,
                    &graph::count_key(id1, kind),
                    &graph::count_value(count, time),
                );
            }
            if !batch.is_empty() {
                store.write(&batch)?;
            }
            Ok(Some(Call::wrote("node", batch.bytes())))
        }))
    })?;
    Ok(vec![first, links])
}

fn run(d: &Drive<'_>) -> Result<Vec<Phase>> {
    let s = d.settings;
    let (nodes, seed, load) = (s.whole("keys", 2)?, s.seed()?, Load::of(s)?);
    let shared = Arc::new(Shared {
        graph: Graph::new(nodes, seed),
        next: AtomicU64::new(nodes + 1 + d.first_number()?),
        clock: AtomicU64::new(1 + d.first_number()?),
        conflicts: AtomicU64::new(0),
    });
    let mut phases = match d.is_loaded {
        true => Vec::new(),
        false => load_graph(d.store, &shared, nodes, seed)?,
    };
    (d.loaded)();
    let mut measured = load.run("linkbench", d.store, |thread| {
        Ok(Box::new(Client::new(&shared, seed, thread)) as Box<dyn super::Client>)
    })?;
    measured.settle(d.store)?;
    measured.verdicts = check::verdicts(d.store)?;
    let conflicts = shared.conflicts.load(Ordering::Relaxed);
    measured
        .notes
        .push(format!("{conflicts} transactions were tried again"));
    phases.push(measured);
    Ok(phases)
}
