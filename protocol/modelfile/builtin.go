package modelfile

import "io/fs"

// builtinFiles are the small files of the builtin model.
var builtinFiles fs.FS
