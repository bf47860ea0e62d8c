//! Version edits.

use spanlith::version::VersionEdit;

/// Decodes an edit. Its encoding sorts deletions and leaves out what says nothing, so it is the
/// encoding of the encoding that must be equal.
pub fn version_edit(data: &[u8]) {
    let Ok(edit) = VersionEdit::decode(data) else {
        return;
    };
    let encoded = edit.encode();
    match VersionEdit::decode(&encoded) {
        Ok(again) => {
            assert!(again.encode() == encoded, "not a normal form: {again:?}");
            assert_eq!(
                (again.new_files.len(), again.last_sequence),
                (edit.new_files.len(), edit.last_sequence)
            );
        }
        Err(e) => panic!("what was encoded does not decode: {e}"),
    }
}
