package tokenizer

import (
	"encoding/binary"
	"fmt"
	"math"
)

// protoMessage reads the fields of a protocol buffers message, one after the
// other. Source: the encoding as protobuf.dev describes it.
type protoMessage struct {
	data []byte
	read int // bytes
}

// protoField is a field: a number, or bytes.
type protoField struct {
	number int
	wire   int // protoVarint and so on
	value  uint64
	bytes  []byte // of protoBytes
}

const (
	protoVarint  = 0
	protoFixed64 = 1
	protoBytes   = 2
	protoFixed32 = 5
)

// next returns the next field; ok is false at the end.
func (m *protoMessage) next() (f protoField, ok bool, err error) {
	if m.read == len(m.data) {
		return f, false, nil
	}
	key, err := m.varint()
	if err != nil {
		return f, false, err
	}
	f.number, f.wire = int(key>>3), int(key&7)
	if f.number == 0 || key>>3 > math.MaxInt32 {
		return f, false, fmt.Errorf("field number %d at byte %d", key>>3, m.read)
	}
	switch f.wire {
	case protoVarint:
		f.value, err = m.varint()
	case protoFixed64:
		err = m.take(8, &f.bytes)
		if err == nil {
			f.value = binary.LittleEndian.Uint64(f.bytes)
		}
	case protoFixed32:
		err = m.take(4, &f.bytes)
		if err == nil {
			f.value = uint64(binary.LittleEndian.Uint32(f.bytes))
		}
	case protoBytes:
		if f.value, err = m.varint(); err == nil {
			err = m.take(f.value, &f.bytes)
		}
	default:
		err = fmt.Errorf("field %d has the wire type %d", f.number, f.wire)
	}
	return f, err == nil, err
}

func (m *protoMessage) varint() (uint64, error) {
	v, n := binary.Uvarint(m.data[m.read:])
	if n <= 0 {
		return 0, fmt.Errorf("a number at byte %d does not end", m.read)
	}
	m.read += n
	return v, nil
}

// take sets dst to the next n bytes.
func (m *protoMessage) take(n uint64, dst *[]byte) error {
	if left := len(m.data) - m.read; n > uint64(left) {
		return fmt.Errorf("%d bytes are announced at byte %d, where %d are left", n, m.read, left)
	}
	*dst = m.data[m.read:][:n:n]
	m.read += int(n)
	return nil
}

// fields calls f for each field of a message.
func fields(data []byte, f func(protoField) error) error {
	for m := (protoMessage{data: data}); ; {
		field, ok, err := m.next()
		if err != nil || !ok {
			return err
		}
		if err := f(field); err != nil {
			return err
		}
	}
}

// want makes sure that a field is encoded as its type is.
func (f protoField) want(wire int) error {
	if f.wire != wire {
		return fmt.Errorf("field %d has the wire type %d, not %d", f.number, f.wire, wire)
	}
	return nil
}

func (f protoField) setBool(dst *bool) error { *dst = f.value != 0; return f.want(protoVarint) }

func (f protoField) setInt(dst *int) error { *dst = int(int32(f.value)); return f.want(protoVarint) }

func (f protoField) setString(dst *string) error { *dst = string(f.bytes); return f.want(protoBytes) }

func (f protoField) setFloat(dst *float32) error {
	*dst = math.Float32frombits(uint32(f.value))
	return f.want(protoFixed32)
}
