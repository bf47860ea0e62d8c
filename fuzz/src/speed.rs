//! Structures of speed disks.

use spanlith_base::checksum::{crc32c, crc32c_append, mask};
use spanlith_env::{BlockDevice, Durability, FileSystem, IoActivity, MemFs, WritableFile};
use spanlith_speed::emulated::{EmulatedDevice, Media, Profile};
use spanlith_speed::{
    Directory, FormatOptions, Layout, LogFile, SUPERBLOCK_BYTES, SpeedDisk, SpeedFs, SpeedOptions,
    Superblock, TableRecord, decode_page, format_disk, seal_page,
};
use std::path::Path;
use std::sync::{Arc, OnceLock};

const INSTANCE: [u8; 16] = *b"fuzz speed disks";
const SIZE: u64 = 512 << 10;
/// Of a disk with a part for tables, which are its last bytes.
const SIZE_TABLES: u64 = SIZE + TABLES;
const TABLES: u64 = 256 << 10;
/// Of a half of the metadata log.
const HALF: u64 = 64 << 10;

fn layout() -> Layout {
    Layout::new(SIZE, 4096, 16 << 10).unwrap()
}

fn mend(bytes: &mut [u8], at: usize, from: usize) {
    if bytes.len() >= from.max(at + 4) {
        let crc = mask(crc32c(&bytes[from..]));
        bytes[at..at + 4].copy_from_slice(&crc.to_le_bytes());
    }
}

/// The first byte says which structure the others are.
pub fn speed_disk(data: &[u8]) {
    let Some((&which, data)) = data.split_first() else {
        return;
    };
    match which % 6 {
        0 => superblock(data.to_vec()),
        1 => directory(data.to_vec()),
        2 => page(data.to_vec()),
        3 => image(data),
        4 => records(data),
        _ => image_of_tables(data),
    }
}

fn superblock(mut data: Vec<u8>) {
    data.resize(SUPERBLOCK_BYTES, 0);
    data[..8].copy_from_slice(b"SPANSDSB");
    mend(&mut data, 8, 12);
    if let Ok(Some(found)) = Superblock::decode(&data) {
        found.check().unwrap();
        assert_eq!(Superblock::decode(&found.encode()).unwrap(), Some(found));
    }
}

fn directory(mut data: Vec<u8>) {
    if data.len() < 56 {
        return;
    }
    let len = data.len() as u32;
    data[..8].copy_from_slice(b"SPANSDLD");
    data[12..16].copy_from_slice(&len.to_le_bytes());
    data[24..40].copy_from_slice(&INSTANCE);
    mend(&mut data, 8, 12);
    if let Ok(Some(found)) = Directory::decode(&data, &INSTANCE, &layout()) {
        let again = Directory::decode(&found.encode().unwrap(), &INSTANCE, &layout());
        assert_eq!(again.unwrap(), Some(found));
    }
}

fn page(mut data: Vec<u8>) {
    if data.len() >= 4 {
        let crc = mask(crc32c_append(crc32c(&INSTANCE), &data[4..]));
        data[..4].copy_from_slice(&crc.to_le_bytes());
    }
    if let Some(header) = decode_page(&data, &INSTANCE) {
        seal_page(&mut data, &header, &INSTANCE);
        assert_eq!(decode_page(&data, &INSTANCE), Some(header));
    }
}

/// A disk with two logs.
fn disk() -> &'static Media {
    static DISK: OnceLock<Media> = OnceLock::new();
    DISK.get_or_init(|| {
        let device = Arc::new(EmulatedDevice::new(Profile::by_name("S").unwrap(), SIZE));
        let options = FormatOptions {
            group_bytes: 16 << 10,
            ..FormatOptions::default()
        };
        format_disk(&*device, &options, INSTANCE).unwrap();
        let disk = SpeedDisk::open(device.clone(), &SpeedOptions::default()).unwrap();
        for number in [4, 6] {
            let log = disk.create_log(number).unwrap();
            let mut file = LogFile::new(disk.clone(), log, Path::new("log"));
            file.append(&[number as u8; 20_000]).unwrap();
            file.sync().unwrap();
            file.append(&[0; 100]).unwrap();
        }
        device.media()
    })
}

/// Changes bytes of a disk, four of the input each: place in units of 8 bytes, length and value. What the checksums of
/// the changed structures cover is mended for some.
fn image(data: &[u8]) {
    let device = EmulatedDevice::with_media(Profile::by_name("S").unwrap(), SIZE, disk().clone());
    for change in data.chunks_exact(4).take(64) {
        let at = u64::from(u16::from_le_bytes([change[0], change[1]])) * 8;
        let bytes = vec![change[3]; usize::from(change[2] % 16) + 1];
        let at = at.min(SIZE - 4096);
        device.write_at(at, &bytes, Durability::Cached).unwrap();
        if change[2] & 0x80 != 0 && at >= 256 << 10 {
            let start = at / 4096 * 4096;
            let mut page = vec![0; 4096];
            device.read_at(start, &mut page).unwrap();
            let crc = mask(crc32c_append(crc32c(&INSTANCE), &page[4..]));
            page[..4].copy_from_slice(&crc.to_le_bytes());
            device.write_at(start, &page, Durability::Cached).unwrap();
        }
    }
    let options = SpeedOptions {
        read_only: true,
        accept_damage: data.len().is_multiple_of(2),
        ..SpeedOptions::default()
    };
    let Ok(disk) = SpeedDisk::open(Arc::new(device), &options) else {
        return;
    };
    for number in disk.numbers() {
        if let Some(log) = disk.log(number) {
            let mut buf = vec![0; 64 << 10];
            if let Ok(n) = log.read_at(&disk, 0, &mut buf) {
                assert!(n as u64 <= log.len());
            }
        }
    }
}

/// Records of the metadata log of tables.
fn records(data: &[u8]) {
    if let Ok(found) = TableRecord::decode_all(data) {
        let mut again = Vec::new();
        found.iter().for_each(|r| r.encode(&mut again));
        assert_eq!(again, data);
    }
}

/// A disk with tables and changes of them in both halves of the metadata log.
fn disk_with_tables() -> &'static Media {
    static DISK: OnceLock<Media> = OnceLock::new();
    DISK.get_or_init(|| {
        let profile = Profile::by_name("S").unwrap();
        let device = Arc::new(EmulatedDevice::new(profile, SIZE_TABLES));
        let options = FormatOptions {
            group_bytes: 16 << 10,
            tables: TABLES,
            ..FormatOptions::default()
        };
        format_disk(&*device, &options, INSTANCE).unwrap();
        let disk = SpeedDisk::open(device.clone(), &SpeedOptions::default()).unwrap();
        let fs = SpeedFs::new(Arc::new(MemFs::new()), Path::new("/db"));
        fs.attach(disk, "/sd");
        for number in 0..12 {
            let path = format!("/sd/tables/{number:06}.sst");
            let mut file = fs.create(Path::new(&path), IoActivity::Flush).unwrap();
            file.append(&[number; 9000]).unwrap();
            file.close().unwrap();
            match number % 4 {
                1 => fs.delete(Path::new(&path)).unwrap(),
                2 => fs
                    .rename(Path::new(&path), Path::new("/sd/tables/x"))
                    .unwrap(),
                _ => {}
            }
        }
        device.media()
    })
}

/// Changes bytes of the metadata log of tables, four of the input each: page, place in it, length and value. The checksums of
/// the changed pages are mended for some.
fn image_of_tables(data: &[u8]) {
    let profile = Profile::by_name("S").unwrap();
    let media = disk_with_tables().clone();
    let device = EmulatedDevice::with_media(profile, SIZE_TABLES, media);
    for change in data.chunks_exact(4).take(64) {
        let start = SIZE + u64::from(change[0]) % (2 * HALF / 4096) * 4096;
        let mut page = vec![0; 4096];
        device.read_at(start, &mut page).unwrap();
        let at = usize::from(change[1]) * 2;
        page[at..at + usize::from(change[2] % 16) + 1].fill(change[3]);
        if change[2] & 0x80 != 0 {
            mend(&mut page, 8, 12);
        }
        device.write_at(start, &page, Durability::Cached).unwrap();
    }
    let options = SpeedOptions {
        read_only: true,
        accept_damage: data.len().is_multiple_of(2),
        ..SpeedOptions::default()
    };
    let Ok(disk) = SpeedDisk::open(Arc::new(device), &options) else {
        return;
    };
    let usage = disk.tables_usage().unwrap();
    let runs = disk.stored_tables().into_iter().flat_map(|(_, f)| f.runs);
    let taken: u64 = runs.map(|run| u64::from(run.pages) * 4096).sum();
    assert_eq!(usage.free + taken, usage.capacity);
    let fs = SpeedFs::new(Arc::new(MemFs::new()), Path::new("/db"));
    fs.attach(disk.clone(), "/sd");
    for (name, stored) in disk.stored_tables() {
        let path = Path::new("/sd/tables").join(name);
        let bytes = fs.read_all(&path, u64::MAX).unwrap();
        assert_eq!(bytes.len() as u64, stored.size);
    }
}

/// Inputs to start from.
pub fn seeds() -> Vec<Vec<u8>> {
    let mut out = Vec::new();
    let block = |at: u64, len: usize| {
        let mut bytes = vec![0; len];
        disk().read(at, &mut bytes);
        bytes
    };
    let mut add = |which: u8, bytes: Vec<u8>| out.push([&[which][..], &bytes].concat());
    add(0, block(0, SUPERBLOCK_BYTES));
    for at in [128 << 10, 192 << 10] {
        let bytes = block(at, 512);
        let len = u32::from_le_bytes(bytes[12..16].try_into().unwrap()) as usize;
        add(1, bytes[..len.min(512)].to_vec());
    }
    add(2, block(256 << 10, 4096));
    add(2, block((256 << 10) + 5 * 4096, 512));
    add(3, vec![0, 0x80, 0x83, 9, 8, 0x40, 3, 1]);
    let mut page = vec![0; 4096];
    disk_with_tables().read(SIZE + 4096, &mut page);
    let len = u32::from_le_bytes(page[40..44].try_into().unwrap()) as usize;
    add(4, page[48..48 + len].to_vec());
    add(5, vec![1, 24, 0x83, 9, 2, 40, 3, 1]);
    add(5, vec![0, 22, 0x80, 2, 17, 20, 0x80, 1]);
    out
}
