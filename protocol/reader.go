package protocol

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"
	"unsafe"
)

// maxDepth bounds nesting where values are kept as any; vLLM's own messages
// stay below 8.
const maxDepth = 32

// reader walks one MessagePack payload.
//
// A value of the wrong kind is recorded (the first one wins), skipped, and read
// as zero, so that the rest of the message still tells whom to answer. A broken
// structure ends the message: every later read returns zero at once.
//
// A declared length is believed only if the payload has that many bytes left,
// so nothing is allocated for a length that lies.
type reader struct {
	buf   []byte
	pos   int
	aux   [][]byte // frames after the payload; the wire counts them from 1
	stop  bool     // the structure is broken
	first *FieldError
	msg   string

	// Where we are, for errors: names and array indices (-1: none) by depth.
	depth int
	path  [maxPath]place
}

const maxPath = 8

type place struct {
	name  string
	index int
}

func (r *reader) reset(msg string, frames [][]byte) {
	*r = reader{msg: msg}
	r.at("")
	if len(frames) == 0 {
		r.broken("no payload frame")
		return
	}
	r.buf, r.aux = frames[0], frames[1:]
}

// enter and leave bracket a nested value; at names the field being read.
func (r *reader) enter() { r.depth++; r.at("") }
func (r *reader) leave() { r.depth-- }
func (r *reader) at(name string) {
	if r.depth < maxPath {
		r.path[r.depth] = place{name, -1}
	}
}
func (r *reader) index(i int) {
	if r.depth < maxPath {
		r.path[r.depth].index = i
	}
}

func (r *reader) where() string {
	var b []byte
	for d := 0; d <= r.depth && d < maxPath; d++ {
		p := r.path[d]
		if p.name != "" {
			if len(b) > 0 {
				b = append(b, '.')
			}
			b = append(b, p.name...)
		}
		if p.index >= 0 {
			b = append(b, '[')
			b = strconv.AppendInt(b, int64(p.index), 10)
			b = append(b, ']')
		}
	}
	return string(b)
}

func (r *reader) record(reason, value string) {
	if r.first == nil {
		r.first = &FieldError{Message: r.msg, Field: r.where(), Reason: reason, Value: value}
	}
}

// broken ends the message.
func (r *reader) broken(reason string) {
	if !r.stop {
		r.stop = true
		r.record(reason, "")
	}
}

// wrong records a bad value at the current position and skips it.
func (r *reader) wrong(reason string) {
	if r.stop {
		return
	}
	r.record(reason, r.describe())
	r.skip()
}

func (r *reader) left() int { return len(r.buf) - r.pos }

// need reports whether n more bytes are there.
func (r *reader) need(n int) bool {
	if r.stop {
		return false
	}
	if n < 0 || n > r.left() {
		r.broken(fmt.Sprintf("truncated at byte %d", len(r.buf)))
		return false
	}
	return true
}

type kind uint8

const (
	kindNone kind = iota // nothing there, or a byte that MessagePack reserves
	kindNil
	kindBool
	kindInt
	kindFloat
	kindStr
	kindBin
	kindArray
	kindMap
	kindExt
)

// peek tells the kind of the next value without reading it.
func (r *reader) peek() kind {
	if !r.need(1) {
		return kindNone
	}
	return kindOf(r.buf[r.pos])
}

func kindOf(c byte) kind {
	switch {
	case c <= 0x7f || c >= 0xe0:
		return kindInt
	case c <= 0x8f:
		return kindMap
	case c <= 0x9f:
		return kindArray
	case c <= 0xbf:
		return kindStr
	}
	switch c {
	case 0xc0:
		return kindNil
	case 0xc2, 0xc3:
		return kindBool
	case 0xc4, 0xc5, 0xc6:
		return kindBin
	case 0xc7, 0xc8, 0xc9, 0xd4, 0xd5, 0xd6, 0xd7, 0xd8:
		return kindExt
	case 0xca, 0xcb:
		return kindFloat
	case 0xcc, 0xcd, 0xce, 0xcf, 0xd0, 0xd1, 0xd2, 0xd3:
		return kindInt
	case 0xd9, 0xda, 0xdb:
		return kindStr
	case 0xdc, 0xdd:
		return kindArray
	case 0xde, 0xdf:
		return kindMap
	}
	return kindNone
}

// size reads a big-endian length of n bytes.
func (r *reader) size(n int) int {
	if !r.need(n) {
		return 0
	}
	v := 0
	for _, c := range r.buf[r.pos : r.pos+n] {
		v = v<<8 | int(c)
	}
	r.pos += n
	return v
}

// count is size for containers, where each element takes at least per bytes.
func (r *reader) count(n, per int) int {
	if per*n > r.left() || n < 0 {
		r.broken(fmt.Sprintf("declares %d elements, %d bytes are left", n, r.left()))
		return 0
	}
	return n
}

// null consumes a nil if that is next.
func (r *reader) null() bool {
	if r.peek() != kindNil {
		return false
	}
	r.pos++
	return true
}

// array reads an array's header. ok is false for anything else.
func (r *reader) array() (n int, ok bool) {
	n, ok = r.structure()
	n = r.count(n, 1)
	return n, ok && !r.stop
}

// structure is array for a struct, whose elements are read one by one: where
// fewer are there than declared, the first ones still tell whom to answer.
func (r *reader) structure() (n int, ok bool) { return r.header(kindArray, 0xdc, "want an array") }

// mapping reads a map's header. ok is false for anything else.
func (r *reader) mapping() (n int, ok bool) {
	n, ok = r.header(kindMap, 0xde, "want a map")
	n = r.count(n, 2)
	return n, ok && !r.stop
}

// header reads how many elements a container has. wide is the code of its
// 16-bit form; the 32-bit one's is the next, and the short form's count is in
// the code.
func (r *reader) header(want kind, wide byte, complaint string) (n int, ok bool) {
	if r.peek() != want {
		r.wrong(complaint)
		return 0, false
	}
	c := r.buf[r.pos]
	r.pos++
	switch c {
	case wide:
		n = r.size(2)
	case wide + 1:
		n = r.size(4)
	default:
		n = int(c & 0x0f)
	}
	return n, !r.stop
}

// span reads n bytes in place.
func (r *reader) span(n int) []byte {
	if !r.need(n) {
		return nil
	}
	p := r.buf[r.pos : r.pos+n : r.pos+n]
	r.pos += n
	return p
}

// strBytes reads a str in place; ok is false for anything else.
func (r *reader) strBytes() (p []byte, ok bool) {
	if r.peek() != kindStr {
		r.wrong("want a str")
		return nil, false
	}
	c := r.buf[r.pos]
	r.pos++
	n := int(c & 0x1f)
	switch c {
	case 0xd9:
		n = r.size(1)
	case 0xda:
		n = r.size(2)
	case 0xdb:
		n = r.size(4)
	}
	p = r.span(n)
	return p, !r.stop
}

func (r *reader) str() string {
	p, _ := r.strBytes()
	return string(p)
}

// strOrNil reads nil as "".
func (r *reader) strOrNil() string {
	if r.null() {
		return ""
	}
	return r.str()
}

// key reads a map key that must be a str; other keys are skipped as unknown.
func (r *reader) key() []byte {
	if r.peek() != kindStr {
		r.skip()
		return nil
	}
	p, _ := r.strBytes()
	return p
}

// eachKey reads a map: field gets each key and reads its value, or returns
// false to have it skipped.
func (r *reader) eachKey(field func(key string) bool) {
	n, ok := r.mapping()
	if !ok {
		return
	}
	r.enter()
	for range n {
		key := unsafeString(r.key())
		r.at(key)
		if r.stop {
			break
		}
		if !field(key) {
			r.skip()
		}
	}
	r.leave()
}

// unsafeString views bytes of the payload, which outlives the decoding.
func unsafeString(p []byte) string { return unsafe.String(unsafe.SliceData(p), len(p)) }

// err is what was recorded, as the interface's nil if nothing was.
func (r *reader) err() error {
	if r.first == nil {
		return nil
	}
	return r.first
}

func (r *reader) bin() []byte {
	if r.peek() != kindBin {
		r.wrong("want a bin")
		return nil
	}
	n := r.size(1 << (r.next() - 0xc4))
	return r.span(n)
}

// next consumes one byte that peek has seen.
func (r *reader) next() byte {
	c := r.buf[r.pos]
	r.pos++
	return c
}

// ext reads an extension's code and bytes in place.
func (r *reader) ext() (code int8, p []byte) {
	if r.peek() != kindExt {
		r.wrong("want an ext")
		return 0, nil
	}
	c := r.next()
	n := 0
	if c >= 0xd4 {
		n = 1 << (c - 0xd4)
	} else {
		n = r.size(1 << (c - 0xc7))
	}
	if !r.need(1) {
		return 0, nil
	}
	code = int8(r.next())
	return code, r.span(n)
}

func (r *reader) bool() bool {
	if r.peek() != kindBool {
		r.wrong("want a bool")
		return false
	}
	return r.next() == 0xc3
}

// boolOrNil reads nil as false.
func (r *reader) boolOrNil() bool { return !r.null() && r.bool() }

// integer reads any int; negative says that bits is two's complement.
func (r *reader) integer() (bits uint64, negative, ok bool) {
	if r.peek() != kindInt {
		r.wrong("want an int")
		return 0, false, false
	}
	c := r.next()
	switch {
	case c <= 0x7f:
		return uint64(c), false, true
	case c >= 0xe0:
		return uint64(int64(int8(c))), true, true
	}
	width := 1 << ((c - 0xcc) & 3)
	if !r.need(width) {
		return 0, false, false
	}
	p := r.buf[r.pos : r.pos+width]
	r.pos += width
	switch width {
	case 1:
		bits = uint64(p[0])
	case 2:
		bits = uint64(binary.BigEndian.Uint16(p))
	case 4:
		bits = uint64(binary.BigEndian.Uint32(p))
	case 8:
		bits = binary.BigEndian.Uint64(p)
	}
	if c < 0xd0 {
		return bits, false, true
	}
	shift := 64 - 8*width
	v := int64(bits<<shift) >> shift
	return uint64(v), v < 0, true
}

// within reads an int that fits [lo, hi].
func (r *reader) within(lo, hi int64) int64 {
	start := r.pos
	bits, negative, ok := r.integer()
	if !ok {
		return 0
	}
	v := int64(bits)
	if v < lo || v > hi || (v < 0) != negative {
		r.pos = start
		r.wrong(fmt.Sprintf("want an int in [%d, %d]", lo, hi))
		return 0
	}
	return v
}

func (r *reader) int() int     { return int(r.within(math.MinInt64, math.MaxInt64)) }
func (r *reader) int32() int32 { return int32(r.within(math.MinInt32, math.MaxInt32)) }

// intOrNil reads nil as 0.
func (r *reader) intOrNil() int {
	if r.null() {
		return 0
	}
	return r.int()
}

// intPtr reads nil as nil.
func (r *reader) intPtr() *int {
	if r.null() {
		return nil
	}
	v := r.int()
	return &v
}

// float reads either width of float, or an int.
func (r *reader) float() float64 {
	switch r.peek() {
	case kindFloat:
		if r.next() == 0xca {
			return float64(math.Float32frombits(uint32(r.size(4))))
		}
		if !r.need(8) {
			return 0
		}
		r.pos += 8
		return math.Float64frombits(binary.BigEndian.Uint64(r.buf[r.pos-8:]))
	case kindInt:
		bits, negative, _ := r.integer()
		if negative {
			return float64(int64(bits))
		}
		return float64(bits)
	}
	r.wrong("want a float")
	return 0
}

func (r *reader) floatOrNil() float64 {
	if r.null() {
		return 0
	}
	return r.float()
}

// ints32 appends an array of ints to dst; nil reads as an empty one.
func (r *reader) ints32(dst []int32) []int32 {
	if r.null() {
		return dst
	}
	n, _ := r.array()
	if cap(dst)-len(dst) < n {
		dst = append(make([]int32, 0, len(dst)+n), dst...)
	}
	for i := range n {
		if v, width := shortUint(r.buf[r.pos:]); width > 0 {
			dst = append(dst, int32(v))
			r.pos += width
			continue
		}
		r.index(i)
		dst = append(dst, r.int32())
		if r.stop {
			return dst
		}
	}
	r.index(-1)
	return dst
}

// shortUint reads the forms that token IDs come in; width is 0 for any other.
func shortUint(b []byte) (v uint32, width int) {
	switch {
	case len(b) > 0 && b[0] <= 0x7f:
		return uint32(b[0]), 1
	case len(b) > 1 && b[0] == 0xcc:
		return uint32(b[1]), 2
	case len(b) > 2 && b[0] == 0xcd:
		return uint32(b[1])<<8 | uint32(b[2]), 3
	case len(b) > 4 && b[0] == 0xce && b[1] <= 0x7f:
		return binary.BigEndian.Uint32(b[1:]), 5
	}
	return 0, 0
}

func (r *reader) ints(dst []int) []int {
	if r.null() {
		return dst
	}
	n, _ := r.array()
	for i := range n {
		r.index(i)
		dst = append(dst, r.int())
		if r.stop {
			return dst
		}
	}
	r.index(-1)
	return dst
}

func (r *reader) floats() []float64 {
	n, ok := r.array()
	if !ok {
		return nil
	}
	all := make([]float64, 0, n)
	for i := 0; i < n && !r.stop; i++ {
		r.index(i)
		all = append(all, r.float())
	}
	r.index(-1)
	return all
}

func (r *reader) strs(dst []string) []string {
	if r.null() {
		return dst
	}
	n, _ := r.array()
	for i := range n {
		r.index(i)
		dst = append(dst, r.str())
		if r.stop {
			return dst
		}
	}
	r.index(-1)
	return dst
}

func (r *reader) strMap() map[string]string {
	if r.null() {
		return nil
	}
	n, ok := r.mapping()
	if !ok {
		return nil
	}
	m := make(map[string]string, min(n, 64))
	for range n {
		k := r.str()
		m[k] = r.str()
		if r.stop {
			return nil
		}
	}
	return m
}

// unset consumes a value and reports whether it says "nothing": nil, false,
// zero, or an empty container.
func (r *reader) unset() bool {
	start := r.pos
	r.skip()
	if r.stop {
		return true
	}
	switch r.buf[start] {
	case 0xc0, 0xc2, 0x00, 0x80, 0x90, 0xa0:
		return true
	case 0xca, 0xcb, 0xcc, 0xcd, 0xce, 0xcf, 0xd0, 0xd1, 0xd2, 0xd3, 0xd9, 0xda, 0xdb, 0xdc, 0xdd, 0xde, 0xdf:
		for _, c := range r.buf[start+1 : r.pos] {
			if c != 0 {
				return false
			}
		}
		return true
	}
	return false
}

// skip passes over one value of any kind, without recursion.
func (r *reader) skip() {
	for todo := 1; todo > 0 && !r.stop; todo-- {
		switch r.peek() {
		case kindNone:
			if !r.stop {
				r.broken(fmt.Sprintf("byte 0x%02x is no MessagePack", r.buf[r.pos]))
			}
		case kindNil, kindBool:
			r.pos++
		case kindInt:
			r.integer()
		case kindFloat:
			r.float()
		case kindStr:
			r.strBytes()
		case kindBin:
			r.bin()
		case kindExt:
			r.ext()
		case kindArray:
			n, _ := r.array()
			todo += n
		case kindMap:
			n, _ := r.mapping()
			todo += 2 * n
		}
	}
}

// any reads a value whose type the method decides.
func (r *reader) any(depth int) any {
	if depth > maxDepth {
		r.broken(fmt.Sprintf("nested deeper than %d", maxDepth))
		return nil
	}
	switch r.peek() {
	case kindNil:
		r.pos++
	case kindBool:
		return r.bool()
	case kindInt:
		bits, negative, _ := r.integer()
		if !negative && bits > math.MaxInt64 {
			return bits
		}
		return int64(bits)
	case kindFloat:
		return r.float()
	case kindStr:
		return r.str()
	case kindBin:
		return append([]byte{}, r.bin()...)
	case kindArray:
		n, _ := r.array()
		list := make([]any, 0, min(n, 64))
		for i := 0; i < n && !r.stop; i++ {
			list = append(list, r.any(depth+1))
		}
		return list
	case kindMap:
		return r.anyMap(depth)
	default:
		r.wrong("want a plain value")
	}
	return nil
}

func (r *reader) anyMap(depth int) map[string]any {
	n, _ := r.mapping()
	m := make(map[string]any, min(n, 64))
	for i := 0; i < n && !r.stop; i++ {
		if r.peek() != kindStr {
			r.wrong("want a str key")
			r.skip()
			continue
		}
		k := r.str()
		m[k] = r.any(depth + 1)
	}
	return m
}

// describe shows the next value in a few characters, reading nothing.
func (r *reader) describe() string {
	look := reader{buf: r.buf, pos: r.pos}
	switch look.peek() {
	case kindNil:
		return "nil"
	case kindBool:
		return strconv.FormatBool(look.bool())
	case kindInt:
		if bits, negative, ok := look.integer(); negative {
			return strconv.FormatInt(int64(bits), 10)
		} else if ok {
			return strconv.FormatUint(bits, 10)
		}
	case kindFloat:
		return strconv.FormatFloat(look.float(), 'g', -1, 64)
	case kindStr:
		p, _ := look.strBytes()
		return quote(p)
	case kindBin:
		return fmt.Sprintf("bin of %d bytes", len(look.bin()))
	case kindArray:
		n, _ := look.array()
		return fmt.Sprintf("array of %d", n)
	case kindMap:
		n, _ := look.mapping()
		return fmt.Sprintf("map of %d", n)
	case kindExt:
		code, p := look.ext()
		return fmt.Sprintf("ext %d of %d bytes", code, len(p))
	}
	return ""
}

// quote shows at most 40 bytes of a string.
func quote(p []byte) string {
	const most = 40
	if len(p) <= most {
		return strconv.Quote(string(p))
	}
	cut := most
	for cut > most-utf8.UTFMax && !utf8.RuneStart(p[cut]) {
		cut--
	}
	return strconv.Quote(string(p[:cut])) + "…"
}
