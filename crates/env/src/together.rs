//! Reads of several files at once.

use crate::traits::{RandomAccessFile, ReadRequest};
use crate::uring;

/// Makes all `requests`, each on the file of the same place, at once where the system can: on files of the operating
/// system through one ring, else file by file. Requests of one file should stand together. Each has its own result, as
/// [`RandomAccessFile::read_at`] would say.
///
/// # Panics
/// If there are fewer files than requests.
pub fn read_together(files: &[&dyn RandomAccessFile], requests: &mut [ReadRequest<'_>]) {
    assert!(files.len() >= requests.len(), "a file for each request");
    let is_one = |a: &dyn RandomAccessFile, b: &dyn RandomAccessFile| std::ptr::addr_eq(a, b);
    let several = files.windows(2).any(|pair| !is_one(pair[0], pair[1]));
    let descriptors: Option<Vec<_>> = match several {
        true => files.iter().map(|file| file.descriptor()).collect(),
        false => None,
    };
    if let Some(descriptors) = descriptors
        && requests.len() > 1
        && uring::read_many(|at| descriptors[at], requests)
    {
        for (file, r) in files.iter().zip(requests) {
            // A read that came short, or not at all, is made again by the plain call, which words its errors.
            match r.result.as_ref().ok() == Some(&r.buf.len()) {
                true => file.note_read(r.buf.len()),
                false => r.result = file.read_at(r.offset, r.buf),
            }
        }
        return;
    }
    let mut from = 0;
    while from < requests.len() {
        let same = |file: &&&dyn RandomAccessFile| is_one(**file, files[from]);
        let n = files[from..requests.len()].iter().take_while(same).count();
        files[from].read_many(&mut requests[from..from + n]);
        from += n;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::{FaultFs, FaultRule, OpClass};
    use crate::mem::MemFs;
    use crate::posix::PosixFs;
    use crate::traits::{FileSystem, IoActivity};
    use std::path::Path;
    use std::sync::Arc;

    fn write(fs: &dyn FileSystem, path: &Path, from: u8) {
        let mut file = fs.create(path, IoActivity::Other).unwrap();
        let bytes: Vec<u8> = (0..1000u32).map(|n| (n % 251) as u8 ^ from).collect();
        file.append(&bytes).unwrap();
        file.close().unwrap();
    }

    /// Reads two stretches of each of three files, and one that ends early.
    fn read_all(fs: &dyn FileSystem, dir: &Path) -> Vec<Result<Vec<u8>, String>> {
        let paths = ["a", "b", "c"].map(|name| dir.join(name));
        for (n, path) in paths.iter().enumerate() {
            write(fs, path, n as u8);
        }
        let open = |path| fs.open_random(path).unwrap();
        let opened: Vec<Arc<dyn RandomAccessFile>> = paths.iter().map(|p| open(p)).collect();
        let files: Vec<&dyn RandomAccessFile> = [0, 0, 1, 1, 2, 2, 2]
            .iter()
            .map(|&n: &usize| &*opened[n])
            .collect();
        let mut buffers = vec![vec![0; 100]; 7];
        let offsets = [0, 500, 10, 300, 0, 800, 950];
        let mut requests: Vec<ReadRequest<'_>> = offsets
            .iter()
            .zip(&mut buffers)
            .map(|(&offset, buf)| ReadRequest::new(offset, buf))
            .collect();
        read_together(&files, &mut requests);
        let results: Vec<_> = requests
            .into_iter()
            .map(|r| r.result.map_err(|e| e.to_string()))
            .collect();
        let all = results.into_iter().zip(buffers).zip(files).zip(offsets);
        all.map(|(((read, buffer), file), offset)| {
            let n = read?;
            let mut alone = vec![0; 100];
            assert_eq!(file.read_at(offset, &mut alone).unwrap(), n);
            assert_eq!(buffer, alone);
            Ok(buffer[..n].to_vec())
        })
        .collect()
    }

    #[test]
    fn reads_of_several_files_are_what_single_reads_are() {
        let temp = tempfile::tempdir().unwrap();
        let memory = MemFs::new();
        memory.create_dir_if_missing(Path::new("/d")).unwrap();
        let on_disk = read_all(&PosixFs::new(), temp.path());
        assert_eq!(on_disk, read_all(&memory, Path::new("/d")));
        let lengths: Vec<usize> = on_disk.iter().map(|r| r.as_ref().unwrap().len()).collect();
        assert_eq!(lengths, [100, 100, 100, 100, 100, 100, 50]);
    }

    #[test]
    fn an_error_is_that_of_its_read_alone() {
        let fs = FaultFs::new(Arc::new(MemFs::new()));
        fs.create_dir_if_missing(Path::new("/d")).unwrap();
        fs.add(FaultRule::fail(OpClass::Read, 2, 5).named("c"));
        let path = Path::new("/d/c");
        write(&fs, path, 0);
        let file = fs.open_random(path).unwrap();
        let (mut a, mut b) = ([0; 10], [0; 10]);
        let mut requests = [ReadRequest::new(0, &mut a), ReadRequest::new(5, &mut b)];
        read_together(&[&*file, &*file], &mut requests);
        assert!(requests[0].result.is_ok() && requests[1].result.is_err());
    }
}
