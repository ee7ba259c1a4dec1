package engineclient

import (
	"crypto/rand"
	"strconv"
)

// NewRequestID makes an internal ID of the one the user sees, so that two
// live requests with the same X-Request-Id do not meet: external, "-" and 8
// random characters.
func NewRequestID(external string) string {
	return external + "-" + rand.Text()[:8]
}

// ChildRequestID is the internal ID of sequence index of a request with n > 1.
func ChildRequestID(index int, parent string) string {
	return strconv.Itoa(index) + "_" + parent
}
