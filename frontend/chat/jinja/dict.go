package jinja

// Ordered dicts: a template prints keys in the order the client sent them.

// Dict is Python's dict: insertion-ordered, keys by Python equality, so that
// 1, 1.0 and True are one key.
type Dict struct {
	entries []entry
	index   map[hashKey]int // nil while a scan is as quick
}

type entry struct {
	hash hashKey
	key  Value
	val  Value
}

// hashKey is equal for two keys exactly when Python calls them equal.
type hashKey struct {
	kind byte // 's' text, 'i' integral number, 'f' other number, 'n' None, 't' tuple, 'o' by identity
	num  int64
	str  string
	obj  any
}

// indexFrom is the size from which a Dict keeps an index.
const indexFrom = 9

// NewDict returns an empty dict.
func NewDict() *Dict { return &Dict{} }

func (*Dict) typeName() string { return "dict" }

// Len returns the number of keys.
func (d *Dict) Len() int {
	if d == nil {
		return 0
	}
	return len(d.entries)
}

// Set gives key the value v: in its old place if it was there, else last.
// Not while a render uses the dict.
func (d *Dict) Set(key string, v Value) { d.set(hashKey{kind: 's', str: key}, Str(key), v) }

// Get returns the value of key.
func (d *Dict) Get(key string) (Value, bool) {
	if d == nil {
		return nil, false
	}
	i := d.find(hashKey{kind: 's', str: key})
	if i < 0 {
		return nil, false
	}
	return d.entries[i].val, true
}

// All calls yield for each entry in order; a key that is no str gives its Value.
func (d *Dict) All() func(yield func(key, v Value) bool) {
	return func(yield func(key, v Value) bool) {
		if d == nil {
			return
		}
		for _, e := range d.entries {
			if !yield(e.key, e.val) {
				return
			}
		}
	}
}

// Clone returns a copy whose top level may be changed on its own.
func (d *Dict) Clone() *Dict {
	c := NewDict()
	if d != nil {
		for _, e := range d.entries {
			c.set(e.hash, e.key, e.val)
		}
	}
	return c
}

func (d *Dict) find(h hashKey) int {
	if d.index != nil {
		if i, ok := d.index[h]; ok {
			return i
		}
		return -1
	}
	for i := range d.entries {
		if d.entries[i].hash == h {
			return i
		}
	}
	return -1
}

func (d *Dict) set(h hashKey, key, v Value) {
	if i := d.find(h); i >= 0 {
		d.entries[i].val = v
		return
	}
	d.entries = append(d.entries, entry{h, key, v})
	switch {
	case d.index != nil:
		d.index[h] = len(d.entries) - 1
	case len(d.entries) == indexFrom:
		d.index = make(map[hashKey]int, 2*indexFrom)
		for i := range d.entries {
			d.index[d.entries[i].hash] = i
		}
	}
}

// lookup is d[key]; found is false for a missing key, err tells an unhashable one.
func (d *Dict) lookup(key Value) (v Value, found bool, err error) {
	h, err := hash(key, 0)
	if err != nil {
		return nil, false, err
	}
	if i := d.find(h); i >= 0 {
		return d.entries[i].val, true, nil
	}
	return nil, false, nil
}

// setKey is d[key] = v for any hashable key.
func (d *Dict) setKey(key, v Value) error {
	h, err := hash(key, 0)
	if err == nil {
		d.set(h, key, v)
	}
	return err
}

// dictView is what keys(), values() and items() return.
type dictView struct {
	dict *Dict
	what byte // 'k', 'v' or 'i'
}

func (v *dictView) typeName() string {
	switch v.what {
	case 'k':
		return "dict_keys"
	case 'v':
		return "dict_values"
	}
	return "dict_items"
}

// at returns element i of the view.
func (v *dictView) at(i int) Value {
	e := v.dict.entries[i]
	switch v.what {
	case 'k':
		return e.key
	case 'v':
		return e.val
	}
	return newTuple(e.key, e.val)
}
