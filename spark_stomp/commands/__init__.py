"""What ``spark-stomp`` can do, a module for each command. None of them needs Spark.

::

    exits       exit codes, and which error has which
    connecting  the arguments that say which broker, and who asks
    probe       who the broker is, and what the connector will do with it
    send        a message a line, each confirmed
    tail        the messages in a queue, without consuming them
    status      the status file of a query as a table      figures  the lines of that table
    devbroker   the dev broker

A command is a module with ``ABOUT``, ``MORE``, ``add_arguments`` and ``run``. :mod:`spark_stomp.cli` imports
the one that is asked for.
"""
