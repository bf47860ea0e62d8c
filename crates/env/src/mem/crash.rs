//! Describes what may be left of a file system after a crash.
//!
//! * *Power loss*, [`after_power_loss`]: per directory some prefix of its pending changes; per file
//!   some prefix of its pending appends, the last of them perhaps torn, perhaps followed by zeros
//!   because the size was written before the data. Everything left is durable.
//! * *Process crash*, [`after_process_crash`]: everything appended is there, and what was pending is
//!   pending still, because a power loss may follow.
//!
//! Questions are asked in a fixed order (directories from the root, names sorted, each file once), so
//! that the same answers give the same state.

use super::content::{Content, pick};
use super::tree::{Change, Dir, DirId, FileRef, Names, Node, Tree, new_file};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Files of the old tree that already have a counterpart, by address.
type Copies = BTreeMap<usize, FileRef>;

fn copy_file(
    copies: &mut Copies,
    file: &FileRef,
    make: impl FnOnce(&Content) -> Content,
) -> FileRef {
    let copy = copies.entry(Arc::as_ptr(file) as usize).or_insert_with(|| {
        // Taken out of the lock, because `make` may ask its caller's questions.
        let content = file.lock().clone();
        new_file(make(&content))
    });
    Arc::clone(copy)
}

/// A state that a power loss may leave, by `choice`. No file is locked while `choice` is asked.
pub(super) fn after_power_loss(tree: &Tree, choice: &mut dyn FnMut(u64) -> u64) -> Tree {
    let mut left = Tree::new();
    let mut copies = Copies::new();
    let mut visited = BTreeSet::new();
    let mut todo = vec![(DirId::ROOT, DirId::ROOT)];
    while let Some((old, new)) = todo.pop() {
        visited.insert(old);
        let Some(dir) = tree.dirs.get(&old) else {
            continue;
        };
        let kept = pick(choice, dir.pending.len() as u64 + 1) as usize;
        let mut seen = dir.durable.clone();
        for change in &dir.pending[..kept] {
            change.apply(&mut seen);
        }
        let mut names = Names::new();
        let mut inner = Vec::new();
        for (name, node) in seen {
            let node = match node {
                Node::File(file) => Node::File(copy_file(&mut copies, &file, |content| {
                    content.left(choice)
                })),
                // A directory that was moved and is durable in both places keeps its first.
                Node::Dir(id) if visited.contains(&id) => continue,
                Node::Dir(id) => {
                    visited.insert(id);
                    let copy = left.new_dir();
                    inner.push((id, copy));
                    Node::Dir(copy)
                }
            };
            names.insert(name, node);
        }
        todo.extend(inner.into_iter().rev());
        left.dirs.insert(
            new,
            Dir {
                durable: names.clone(),
                names,
                pending: Vec::new(),
            },
        );
    }
    left
}

/// The same state, durable and pending, without handles and locks.
pub(super) fn after_process_crash(tree: &Tree) -> Tree {
    let mut copy = Tree::new();
    let mut copies = Copies::new();
    let reachable = tree.reachable();
    let mut ids = BTreeMap::from([(DirId::ROOT, DirId::ROOT)]);
    for &id in reachable.iter().filter(|&&id| id != DirId::ROOT) {
        ids.insert(id, copy.new_dir());
    }
    let mut node = |node: &Node| match node {
        Node::File(file) => Some(Node::File(copy_file(&mut copies, file, Content::closed))),
        Node::Dir(id) => ids.get(id).copied().map(Node::Dir),
    };
    for (old, new) in &ids {
        let Some(dir) = tree.dirs.get(old) else {
            continue;
        };
        let mut names = |names: &Names| -> Names {
            names
                .iter()
                .filter_map(|(name, n)| Some((name.clone(), node(n)?)))
                .collect()
        };
        let (seen, durable) = (names(&dir.names), names(&dir.durable));
        let pending = dir
            .pending
            .iter()
            .map(|change| {
                let change = change.0.iter();
                Change(
                    change
                        .map(|(name, n)| (name.clone(), n.as_ref().and_then(&mut node)))
                        .collect(),
                )
            })
            .collect();
        copy.dirs.insert(
            *new,
            Dir {
                names: seen,
                durable,
                pending,
            },
        );
    }
    copy
}
