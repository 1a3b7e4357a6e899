# Spark with its stock Kafka connector and magnetar-pipeline. Build from the root of the repository:
#   docker build -f docker/spark.Dockerfile -t magnetar-spark .
FROM maven:3.9.9-eclipse-temurin-17@sha256:f58d59b6273e785ac0a4477f6e9b5ba1d7731c75b906c0f7b34076f1851318cc AS jars
COPY compat/spark/pom.xml pom.xml
RUN mvn -q -B -ntp dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory=/jars \
    -DincludeArtifactIds=spark-sql-kafka-0-10_2.13,spark-token-provider-kafka-0-10_2.13,kafka-clients,commons-pool2

FROM python:3.11.13-slim-bookworm@sha256:86adf8dbadc3d6e82ee5dd2c74bec2e1c2467cdad47886280501df722372d2e1
RUN apt-get update && apt-get install -y --no-install-recommends openjdk-17-jre-headless procps \
    && rm -rf /var/lib/apt/lists/*
RUN useradd --system --uid 10001 --create-home spark && install -d -o spark -g root -m 0775 /archive
WORKDIR /src
COPY requirements/run.lock requirements/run.lock
RUN pip install --no-cache-dir --disable-pip-version-check --require-hashes -r requirements/run.lock
RUN pip install --no-cache-dir --disable-pip-version-check pyspark==4.2.0
COPY pyproject.toml README.md LICENSE ./
COPY gateway gateway
COPY semantics semantics
COPY store store
COPY pipeline pipeline
RUN pip install --no-cache-dir --disable-pip-version-check --no-deps --no-build-isolation .
COPY --from=jars /jars /opt/jars
ENV PYTHONUNBUFFERED=1 \
    MAGNETAR_SPARK_JARS=/opt/jars
USER spark
WORKDIR /archive
VOLUME /archive
STOPSIGNAL SIGTERM
ENTRYPOINT ["magnetar-pipeline"]
CMD ["--help"]
