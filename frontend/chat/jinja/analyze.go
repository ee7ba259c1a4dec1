package jinja

// LoopsOver reports whether the template has a for over the field of the items
// of list, as in
//
//	{% for message in messages %}{% for part in message.content %}
//
// for LoopsOver("messages", "content"). Plain assignments are followed; scopes
// are not told apart. ok is false where a list or item goes to a target that is
// no plain name, so that it can't be followed.
//
// This is the walk vLLM detects its chat content format with
// (vllm/renderers/hf.py, _iter_nodes_assign_content_item).
func (t *Template) LoopsOver(list, field string) (found, ok bool) {
	root := t.prog.body
	lists, ok := aliases(root, list)
	if !ok {
		return false, false
	}
	items := map[string]bool{}
	eachFor(root, func(s *forStmt) {
		if !elementsOf(s.iter, lists, "") {
			return
		}
		if target, isName := s.target.(*nameExpr); isName {
			items[target.name] = true
		} else {
			ok = false
		}
	})
	if !ok {
		return false, false
	}
	unpacked := false
	eachFor(root, func(s *forStmt) {
		if found || unpacked || !elementsOf(s.iter, items, field) {
			return
		}
		_, found = s.target.(*nameExpr)
		unpacked = !found
	})
	return found, !unpacked
}

func eachFor(body []stmt, f func(*forStmt)) {
	for _, s := range body {
		walk(s, func(n node) bool {
			if loop, ok := n.(*forStmt); ok {
				f(loop)
			}
			return true
		})
	}
}

// aliases returns the names that name is assigned to, itself included.
func aliases(body []stmt, name string) (names map[string]bool, ok bool) {
	names, ok = map[string]bool{name: true}, true
	for grown := true; grown && ok; {
		grown = false
		for _, s := range body {
			walk(s, func(n node) bool {
				set, isSet := n.(*setStmt)
				if !isSet || !elementsOf(set.val, names, "") {
					return true
				}
				target, isName := set.target.(*nameExpr)
				switch {
				case !isName:
					ok = false
				case !names[target.name]:
					names[target.name] = true
					grown = true
				}
				return true
			})
		}
	}
	return names, ok
}

// elementsOf reports whether e is one of the variables, or its field if that is
// not empty, possibly filtered, tested or sliced.
func elementsOf(e expr, names map[string]bool, field string) bool {
	switch e := e.(type) {
	case *filterExpr:
		return e.x != nil && elementsOf(e.x, names, field)
	case *testExpr:
		return elementsOf(e.x, names, field)
	case *itemExpr:
		if _, ok := e.key.(*sliceExpr); ok {
			return elementsOf(e.x, names, field)
		}
		key, ok := e.key.(*constExpr)
		return ok && field != "" && key.val == Str(field) && isOneOf(e.x, names)
	case *attrExpr:
		return field != "" && e.name == field && isOneOf(e.x, names)
	}
	return field == "" && isOneOf(e, names)
}

func isOneOf(e expr, names map[string]bool) bool {
	n, ok := e.(*nameExpr)
	return ok && names[n.name]
}
