//! A database that is open for reading beside the process that writes it, and follows that process.
//!
//! Catching up reads CURRENT, the MANIFEST and the logs once more, as an open for reading does, and puts the
//! memtables and versions found into the families that are open here. Tables that were open stay open. Nothing
//! is read if neither the MANIFEST nor a log has grown.
//!
//! Readers load the superversion first and the visible sequence number after it. Catching up therefore publishes
//! the number first: a reader then meets the old superversion with either number, which shows the old state, or
//! the new one with the new number (R1).

use super::Db;
use crate::core::Lsm;
use crate::recovery::{OpenRequest, list_families, open, read_current};
use crate::version::filenames;
use spanlith_base::{Error, ErrorKind, Result};
use std::ops::Deref;
use std::sync::{Mutex, PoisonError};

/// A database open for reading that follows the process that writes it. Everything that [`Db`] reads can be read;
/// updates fail with `NotSupported`.
pub struct Secondary {
    db: Db,
    request: OpenRequest,
    /// Held while it catches up: the files as they were read last.
    seen: Mutex<Seen>,
}

/// Names and sizes of MANIFEST and logs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Seen(Vec<(String, u64)>);

impl Seen {
    fn look(request: &OpenRequest) -> Result<Self> {
        let OpenRequest { env, dir, .. } = request;
        let manifest = filenames::manifest_file_name(read_current(env, dir)?);
        let mut files = vec![(manifest.clone(), env.fs.size(&dir.join(manifest))?)];
        let logs = request.wal_dir();
        for number in request.list_numbers()?.1 {
            let name = filenames::log_file_name(number);
            match env.fs.size(&logs.join(&name)) {
                Ok(size) => files.push((name, size)),
                // The writer has deleted it since.
                Err(e) if e.kind() == ErrorKind::Io => {}
                Err(e) => return Err(e),
            }
        }
        Ok(Self(files))
    }
}

impl Secondary {
    pub(super) fn open(mut request: OpenRequest) -> Result<Self> {
        let seen = Seen::look(&request)?;
        let engine = open(&request)?;
        // A file that does not exist is not made here, now or later.
        request.options.create_if_missing = false;
        Ok(Self {
            db: Db::from_engine(engine),
            request,
            seen: Mutex::new(seen),
        })
    }

    /// The database.
    pub fn db(&self) -> &Db {
        &self.db
    }

    /// Shows what the writer has made durable or logged up to now. Iterators and values that are in use stay as
    /// they are. Families that were made since stay unknown; one that was dropped keeps its last state.
    ///
    /// Costs a look at the sizes of the MANIFEST and the logs if nothing changed; otherwise both are read anew,
    /// and tables that are new are opened.
    ///
    /// # Errors
    /// `NotSupported` while snapshots are held, whose entries the writer may have dropped; `Corruption` if the
    /// directory holds another database by now; those of opening for reading. After an error the database shows
    /// what it showed.
    pub fn catch_up(&self) -> Result<()> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Seen::look(&self.request)?;
        if now == *seen {
            return Ok(());
        }
        let engine = self.db.engine();
        let closed = engine.c.snapshots.close();
        if !closed.is_empty() {
            return Err(Error::not_supported(
                "Catching up with the primary while snapshots are held",
            ));
        }
        let mut request = self.request.again();
        request.before = Some(engine.clone());
        let names = list_families(&request.env, &request.dir)?;
        request
            .families
            .retain(|family| names.contains(&family.name));
        let newer = open(&request)?;
        if newer.c.db_id != engine.c.db_id {
            return Err(Error::corruption(format!(
                "the directory holds another database: {} instead of {}",
                newer.c.db_id, engine.c.db_id
            ))
            .with_path(&self.request.dir));
        }
        adopt(engine, &newer);
        *seen = now;
        Ok(())
    }
}

impl Deref for Secondary {
    type Target = Db;

    fn deref(&self) -> &Db {
        &self.db
    }
}

/// Shows the state of `newer`, the same database opened later, which is not used afterwards.
fn adopt(lsm: &Lsm, newer: &Lsm) {
    let visible = newer.visible();
    debug_assert!(visible >= lsm.visible(), "W3: it sinks");
    // The caller that catches up holds the token of that; nothing is written here.
    lsm.order.publish_alone(visible.max(lsm.visible()));
    let mut families = std::mem::take(&mut newer.state.lock().families);
    let mut replaced = Vec::new();
    let mut state = lsm.state.lock();
    let ids: Vec<u32> = state.families.keys().copied().collect();
    for &id in &ids {
        let (Some(family), Some(found)) = (state.family_mut(id), families.remove(&id)) else {
            continue;
        };
        family.log_number = found.log_number;
        replaced.push((
            std::mem::replace(&mut family.mem, found.mem),
            std::mem::replace(&mut family.imm, found.imm),
            std::mem::replace(&mut family.version, found.version),
        ));
    }
    lsm.install_superversions(&mut state, ids);
    drop(state);
    // Memtables and files are freed without the lock.
    drop(replaced);
}
