package modelfile

// Parsers of single files, for tests without a directory.
var (
	ParseSafetensors = parseSafetensors
	EOSToken         = eosToken
	TokenID          = tokenID
)
