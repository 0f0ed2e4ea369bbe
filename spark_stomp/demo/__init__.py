"""The demonstration behind ``make demo``: a year of flights, two streaming queries, and proof.

``__main__``  puts it together: publish, start the queries, watch them, prove
``flights``   the flights as JSON messages, and what must come out in the end
``queries``   the two streaming queries: begin here
``report``    progress lines, result table, proof, plot
"""
