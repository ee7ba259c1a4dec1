package protocol

import (
	"fmt"
	"strings"
)

// FrontendMessage is what an engine can receive: *EngineCoreRequest, Abort,
// *StartDPWave, *UtilityCall, or *FieldError for one that could not be decoded.
type FrontendMessage interface{ frontendMessage() }

func (*EngineCoreRequest) frontendMessage() {}
func (Abort) frontendMessage()              {}
func (*StartDPWave) frontendMessage()       {}
func (*UtilityCall) frontendMessage()       {}
func (*FieldError) frontendMessage()        {}

// Abort names requests that their client no longer wants; IDs that are not
// live mean nothing.
type Abort []string

// StartDPWave wakes engines for a wave of data-parallel work.
type StartDPWave struct {
	Wave       int
	Exclude    int // engine index that needs no waking
	HasExclude bool
}

// FieldError says which field of a message is wrong and why. It carries what
// could still be read of the sender, so that the message gets an answer: an
// ERROR output for an ADD, a failure for a UTILITY.
type FieldError struct {
	Message string // type of the message, e.g. "EngineCoreRequest"
	Field   string // path, e.g. "sampling_params.top_k"; "" for the whole
	Value   string // as read, shortened; "" if there is none
	Reason  string // e.g. "want an int"

	Type        RequestType // of the message, when it came from a frontend
	ClientIndex int         // 0 where unread
	RequestID   string      // "" where unread
	CallID      *CallID     // nil where unread, and for all but UTILITY
}

// Error reads: EngineCoreRequest "r1": sampling_params.top_k: want an int, got "x".
func (e *FieldError) Error() string {
	var b strings.Builder
	b.WriteString(e.Message)
	if e.RequestID != "" {
		fmt.Fprintf(&b, " %q", e.RequestID)
	}
	if e.Field != "" {
		b.WriteString(": " + e.Field)
	}
	b.WriteString(": " + e.Reason)
	if e.Value != "" {
		b.WriteString(", got " + e.Value)
	}
	return b.String()
}
