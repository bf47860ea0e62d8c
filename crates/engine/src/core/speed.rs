//! The speed disk of a database: which one it is, and what CURRENT says about it.

use crate::version::SpeedMark;
use spanlith_env::BlockDevice;
use spanlith_speed::{SpeedFs, SpeedUsage};
use std::sync::{Arc, OnceLock};

/// A speed disk that somebody asks for.
#[derive(Clone)]
pub enum SpeedSource {
    /// A device, a file or a part of one, as [`spanlith_speed::Target`] reads it.
    Path(String),
    /// An open device, under a name.
    Device(String, Arc<dyn BlockDevice>),
}

impl std::fmt::Debug for SpeedSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.target())
    }
}

impl SpeedSource {
    /// Returns what it is called.
    pub fn target(&self) -> &str {
        let (Self::Path(target) | Self::Device(target, _)) = self;
        target
    }
}

/// Describes what a database has of a speed disk.
#[derive(Clone)]
pub(crate) struct Speed {
    /// The file system with its logs, once the disk is attached.
    pub fs: Arc<SpeedFs>,
    /// The disk that was asked for; `None`: the one that CURRENT names.
    pub source: Option<SpeedSource>,
    /// Says what CURRENT says as long as the database is open.
    pub mark: Arc<OnceLock<SpeedMark>>,
}

impl Speed {
    /// Figures of the disk, if one is attached.
    pub fn usage(&self) -> Option<SpeedUsage> {
        self.fs.disk().map(|disk| disk.usage())
    }

    /// Returns whether more than three quarters of the page groups are taken.
    pub fn is_tight(&self) -> bool {
        self.usage().is_some_and(|u| u.free_groups < u.groups / 4)
    }
}
