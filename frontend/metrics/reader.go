package metrics

import (
	"net/http"
	"strconv"

	"govllm/stats/reader"
)

// ReaderJSON answers with the vllm: metrics as typed records in JSON, those of
// package reader.
func (r *Registry) ReaderJSON() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		records, err := reader.Read(r)
		var text []byte
		if err == nil {
			text, err = reader.AppendJSON(nil, records)
		}
		if err != nil {
			r.log.Error("metrics cannot be read", "err", err)
			http.Error(w, "metrics cannot be read; the server's log says why", http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(text)))
		if _, err := w.Write(text); err != nil {
			r.log.Debug("a reader went away", "err", err)
		}
	})
}
