//! Sorting that leaves equal items where RocksDB's sorting leaves them.
//!
//! RocksDB sorts files with the unstable algorithms of GNU's C++ library. Which of several equal files
//! comes first follows from the steps these take, so the same steps are taken here: a heap selects and
//! sorts the front of a list; a whole list is divided around the median of three items down to short
//! runs, which insertion sorts in the end. Items are moved only by what `is_less` says of pairs.

/// Runs up to this length are left to the insertion sort.
const SHORT_RUN: usize = 16;

/// Brings the `front` smallest items to the front, in order; the others follow in the order that the
/// selection leaves.
pub(super) fn sort_front<T: Copy>(
    items: &mut [T],
    front: usize,
    mut is_less: impl FnMut(&T, &T) -> bool,
) {
    heap_sort_front(items, front.min(items.len()), &mut is_less);
}

/// Sorts all items.
pub(crate) fn sort_all<T: Copy>(items: &mut [T], mut is_less: impl FnMut(&T, &T) -> bool) {
    if let Some(bits) = items.len().checked_ilog2() {
        divide(items, bits * 2, &mut is_less);
    }
    // The rest are short runs in the right order; insertion keeps equal items as they are.
    for end in 1..items.len() {
        let item = items[end];
        let mut at = end;
        while at > 0 && is_less(&item, &items[at - 1]) {
            items[at] = items[at - 1];
            at -= 1;
        }
        items[at] = item;
    }
}

/// A heap of the smallest items so far, the largest of them at its root, takes in what is smaller than
/// its root, and is then sorted.
fn heap_sort_front<T: Copy>(
    items: &mut [T],
    front: usize,
    is_less: &mut impl FnMut(&T, &T) -> bool,
) {
    if front == 0 {
        return;
    }
    for root in (0..front / 2).rev() {
        let item = items[root];
        sift(&mut items[..front], root, item, is_less);
    }
    for at in front..items.len() {
        let item = items[at];
        if is_less(&item, &items[0]) {
            items[at] = items[0];
            sift(&mut items[..front], 0, item, is_less);
        }
    }
    for last in (1..front).rev() {
        let item = items[last];
        items[last] = items[0];
        sift(&mut items[..last], 0, item, is_less);
    }
}

/// Puts `item` into the heap below the free place `root`: the place sinks to a leaf along the larger
/// children, then the item rises from there.
fn sift<T: Copy>(heap: &mut [T], root: usize, item: T, is_less: &mut impl FnMut(&T, &T) -> bool) {
    let mut hole = root;
    loop {
        let right = 2 * hole + 2;
        let child = if right < heap.len() {
            right - usize::from(is_less(&heap[right], &heap[right - 1]))
        } else if right == heap.len() {
            right - 1
        } else {
            break;
        };
        heap[hole] = heap[child];
        hole = child;
    }
    while hole > root {
        let parent = (hole - 1) / 2;
        if !is_less(&heap[parent], &item) {
            break;
        }
        heap[hole] = heap[parent];
        hole = parent;
    }
    heap[hole] = item;
}

/// Divides until runs are short. Lists that divide badly `depth` times are sorted by a heap.
fn divide<T: Copy>(mut items: &mut [T], mut depth: u32, is_less: &mut impl FnMut(&T, &T) -> bool) {
    while items.len() > SHORT_RUN {
        if depth == 0 {
            return heap_sort_front(items, items.len(), is_less);
        }
        depth -= 1;
        let cut = partition(items, is_less);
        let (left, right) = items.split_at_mut(cut);
        divide(right, depth, is_less);
        items = left;
    }
}

/// Divides around the median of the second, the middle and the last item, which changes places with
/// the first. Tells where the right part begins.
fn partition<T: Copy>(items: &mut [T], is_less: &mut impl FnMut(&T, &T) -> bool) -> usize {
    let (a, b, c) = (1, items.len() / 2, items.len() - 1);
    let mut less = |x: usize, y: usize| is_less(&items[x], &items[y]);
    let median = if less(a, b) {
        if less(b, c) {
            b
        } else if less(a, c) {
            c
        } else {
            a
        }
    } else if less(a, c) {
        a
    } else if less(b, c) {
        c
    } else {
        b
    };
    items.swap(0, median);
    let pivot = items[0];
    let (mut low, mut high) = (1, items.len());
    // The median of three stops both searches.
    loop {
        while is_less(&items[low], &pivot) {
            low += 1;
        }
        high -= 1;
        while is_less(&pivot, &items[high]) {
            high -= 1;
        }
        if low >= high {
            return low;
        }
        items.swap(low, high);
        low += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Kind of sort, items, different keys among them, and a hash of where each item ends, as a C++
    /// program with the GNU library printed it.
    const RECORDED: &str = "
front 1 1 af63bd4c8601b7df
all 1 1 af63bd4c8601b7df
front 1 5 af63bd4c8601b7df
all 1 5 af63bd4c8601b7df
front 1 1000000 af63bd4c8601b7df
all 1 1000000 af63bd4c8601b7df
front 16 1 d8bd5fbdacc5bccb
all 16 1 7c84dc9477851775
front 16 5 1f68674c2427fe03
all 16 5 40c793154398d999
front 16 1000000 2909c91f7b7afc85
all 16 1000000 07e380df76d79683
front 17 1 a909fc48a7fffb33
all 17 1 93354466f7a37cef
front 17 5 da7098e9108392d5
all 17 5 c12338f48c51c703
front 17 1000000 d7d4c2aefac0b5d1
all 17 1000000 172d9aff690023b9
front 51 1 d3f2c0f76411a27e
all 51 1 6e9eafb93b8005b6
front 51 5 399e4dbd8af8edb4
all 51 5 89adce082d9c048a
front 51 1000000 779433074f164766
all 51 1000000 fb9458264368ecb8
front 100 1 bdd9af4c1cbbdc57
all 100 1 8c9d94ab4e40269d
front 100 5 d7a4c3f1f9eaa31f
all 100 5 902fab2d755f41db
front 100 1000000 daa7f2d37355212b
all 100 1000000 30d4b71a59d39971
front 400 1 d5ff64f5542cfc33
all 400 1 fe2739f53f004505
front 400 5 2e06aadca97c995d
all 400 5 2d586d97649d06f9
front 400 1000000 8aecc0e7498f804f
all 400 1000000 c934d44b0069e0c3";

    fn hash(order: &[(usize, u64)]) -> u64 {
        order.iter().fold(14_695_981_039_346_656_037, |h, item| {
            (h ^ item.0 as u64).wrapping_mul(1_099_511_628_211)
        })
    }

    #[test]
    fn equal_items_end_where_the_gnu_library_leaves_them() {
        let mut link: u64 = 1;
        let mut next = |below: u64| {
            link = link
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (link >> 33) % below
        };
        let mut rows = 0;
        for line in RECORDED.trim().lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            let (n, kinds): (usize, u64) = (words[1].parse().unwrap(), words[2].parse().unwrap());
            let mut items: Vec<_> = (0..n).map(|i| (i, next(kinds))).collect();
            let less = |a: &(usize, u64), b: &(usize, u64)| a.1 < b.1;
            match words[0] {
                "front" => sort_front(&mut items, 50, less),
                _ => sort_all(&mut items, less),
            }
            assert_eq!(format!("{:016x}", hash(&items)), words[3], "{line}");
            rows += 1;
        }
        assert_eq!(rows, 36);
    }

    #[test]
    fn a_list_that_divides_badly_is_sorted_by_a_heap() {
        // The largest of three items is always near the largest of all.
        let half = 1500;
        let mut items: Vec<_> = (0..2 * half).map(|i| (i, 0)).collect();
        for i in 1..=half {
            if i % 2 == 1 {
                items[i - 1].1 = i;
                items[i].1 = half + i;
            }
            items[half + i - 1].1 = 2 * i;
        }
        let mut sorted = items.clone();
        let mut compared = 0;
        sort_all(&mut sorted, |a, b| {
            compared += 1;
            a.1 < b.1
        });
        assert!(sorted.is_sorted_by_key(|item| item.1));
        assert!(compared < 200_000, "{compared} comparisons");
        let places: Vec<_> = sorted.iter().map(|&(at, _)| (at, 0)).collect();
        assert_eq!(format!("{:016x}", hash(&places)), "8947740ffbb8bcd9");
    }
}
