//! A device whose changes stay in memory: what lies below is read and never touched.

use spanlith::Result;
use spanlith_env::{BlockDevice, Durability, Geometry};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes that are kept together.
const PAGE: u64 = 4096;

/// The device.
pub struct Shadow {
    below: Arc<dyn BlockDevice>,
    /// Pages that were written, by number.
    pages: Mutex<BTreeMap<u64, Vec<u8>>>,
}

impl Shadow {
    /// Over a device.
    pub fn new(below: Arc<dyn BlockDevice>) -> Self {
        Self {
            below,
            pages: Mutex::default(),
        }
    }

    fn pages(&self) -> MutexGuard<'_, BTreeMap<u64, Vec<u8>>> {
        // Nothing under the lock can panic half-way.
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A page as it is below; the last one may be short.
    fn page_below(&self, page: u64) -> Result<Vec<u8>> {
        let at = page * PAGE;
        let len = self.geometry().size.saturating_sub(at).min(PAGE);
        let mut bytes = vec![0; usize::try_from(len).unwrap_or(0)];
        self.below.read_at(at, &mut bytes)?;
        Ok(bytes)
    }
}

/// For each page that `len` bytes from `offset` on touch: its number, where in it they begin, where among them, how many.
fn parts(offset: u64, len: usize) -> impl Iterator<Item = (u64, usize, usize, usize)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let at = offset + done as u64;
        let within = (at % PAGE) as usize;
        let bytes = (len - done).min(PAGE as usize - within);
        let part = (at / PAGE, within, done, bytes);
        done += bytes;
        (bytes > 0).then_some(part)
    })
}

impl BlockDevice for Shadow {
    fn geometry(&self) -> Geometry {
        self.below.geometry()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.below.read_at(offset, buf)?;
        let pages = self.pages();
        for (page, within, done, bytes) in parts(offset, buf.len()) {
            let written = pages.get(&page).and_then(|p| p.get(within..within + bytes));
            if let (Some(written), Some(buf)) = (written, buf.get_mut(done..done + bytes)) {
                buf.copy_from_slice(written);
            }
        }
        Ok(())
    }

    fn write_at(&self, offset: u64, data: &[u8], _durability: Durability) -> Result<()> {
        let mut pages = self.pages();
        for (page, within, done, bytes) in parts(offset, data.len()) {
            let page = match pages.entry(page) {
                std::collections::btree_map::Entry::Occupied(page) => page.into_mut(),
                std::collections::btree_map::Entry::Vacant(place) => {
                    place.insert(self.page_below(page)?)
                }
            };
            let (to, from) = (
                page.get_mut(within..within + bytes),
                data.get(done..done + bytes),
            );
            if let (Some(to), Some(from)) = (to, from) {
                to.copy_from_slice(from);
            }
        }
        Ok(())
    }

    fn flush(&self) -> Result<()> {
        Ok(())
    }

    fn path(&self) -> &Path {
        self.below.path()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spanlith_env::{DeviceAccess, FileSystem, MemFs};

    #[test]
    fn changes_are_read_again_and_nothing_below_changes() {
        let fs = MemFs::new();
        fs.make_device(Path::new("/disk"), 10_000).unwrap();
        let below = fs
            .open_device(Path::new("/disk"), DeviceAccess::Read)
            .unwrap();
        let shadow = Shadow::new(below.clone());
        shadow
            .write_at(4000, &[7; 5000], Durability::Durable)
            .unwrap();
        shadow.write_at(9990, &[8; 10], Durability::Cached).unwrap();
        let mut seen = vec![1; 10_000];
        shadow.read_at(0, &mut seen).unwrap();
        let mut expected = vec![0; 10_000];
        expected[4000..9000].fill(7);
        expected[9990..].fill(8);
        assert!(seen == expected);
        below.read_at(0, &mut seen).unwrap();
        assert!(seen.iter().all(|&b| b == 0));
    }
}
