package modelfile

// ParseSafetensors is parseSafetensors, for tests of the format alone.
var ParseSafetensors = parseSafetensors
