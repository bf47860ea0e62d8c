//! Writes the seeds of every target: `seeds FIXTURES CORPUS [TARGET...]` fills `CORPUS/<target>/`.

use std::path::PathBuf;

fn main() -> std::io::Result<()> {
    let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
    let (Some(fixtures), Some(corpus)) = (arguments.next(), arguments.next()) else {
        eprintln!("usage: seeds FIXTURES CORPUS");
        std::process::exit(2);
    };
    for (i, (target, bytes)) in spanlith_fuzz::seeds::seeds(&fixtures, 400)
        .iter()
        .enumerate()
    {
        let folder = corpus.join(target);
        std::fs::create_dir_all(&folder)?;
        std::fs::write(folder.join(format!("seed-{i:05}")), bytes)?;
    }
    Ok(())
}
