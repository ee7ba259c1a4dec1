// Package hub fetches models from the Hugging Face hub, or from a server that
// speaks its protocol, into the cache that Python's huggingface_hub shares:
//
//	models--OWNER--NAME/
//	  refs/main                       a revision's commit
//	  blobs/HASH                      contents, named by their checksum
//	  blobs/HASH.incomplete           what has come of one; the next try goes on there
//	  snapshots/COMMIT/config.json -> ../../blobs/HASH
//	.locks/models--OWNER--NAME/HASH.lock
//
// One request lists a commit's files with sizes and checksums; those that are
// needed and missing come in parallel. A blob is whole or not there: it is
// checked against its name before it gets it. Any number of processes may
// fetch the same model at a time: a lock of the operating system (it ends with
// its holder) lets one of them download a file while the others wait for it.
//
// The token goes to the hub alone: where it redirects to another host, the
// request goes without.
//
// Follows huggingface_hub 2.4, file_download.py and _snapshot_download.py; we
// differ in: partial files are resumed by any later process, every content is
// checked against its hash, a snapshot holds only what a model is served from,
// and its list of files (trees/) is neither written nor read.
package hub

import (
	"errors"

	"govllm/protocol/modelfile"
)

// Every error of this package wraps one of these, except for those of the
// file system and an ended context.
var (
	// ErrNotFound reports a repository, revision or file that is not there.
	ErrNotFound = modelfile.ErrNotFound
	// ErrInvalid reports a wish or an answer of the server that breaks its form.
	ErrInvalid = modelfile.ErrInvalid
	// ErrUnsupported reports a repository without files that can be served.
	ErrUnsupported = modelfile.ErrUnsupported
	// ErrDenied reports a repository that asks for a token, or for another one.
	ErrDenied = errors.New("access denied")
	// ErrUnreachable reports a hub that does not answer, or that offline mode
	// forbids to ask, when the cache does not hold what is wanted.
	ErrUnreachable = errors.New("not reachable")
	// ErrDamaged reports a file that arrives with another content than its
	// checksum says, again and again.
	ErrDamaged = errors.New("damaged")
	// ErrNoSpace reports a disk without room for what is to be fetched.
	ErrNoSpace = errors.New("not enough disk space")
)
